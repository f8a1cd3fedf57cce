"""Small models and data in files, as users have them, and what `fans explain` says of them."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

N, COLUMNS = 90, ("age", "dose (mg)", "weight")

MODULE = """
import os, time
import numpy as np
import torch
from torch import nn


def praised(texts):
    p = np.array([0.1 + 0.8 * ("good" in text) for text in texts])
    return np.stack([1 - p, p], 1)


def rows(frame):
    time.sleep(float(os.environ.get("MS", 0)) / 1000)
    return (frame["age"] - frame["weight"] > 0).to_numpy(float)


class Sum(nn.Module):
    def forward(self, x, edge_index):
        out = torch.zeros(len(x)).index_add(0, edge_index[1], x[edge_index[0], 0])
        return torch.stack([-out, out], 1)


def graph():
    return Sum()


def broken():
    raise ValueError("no weights today")


def fails_at_seven(frame):
    if np.isclose(frame["age"], 7777).any():
        raise ValueError("seven")
    return frame["age"].to_numpy() * 1.0
"""


def table(n: int = N) -> pd.DataFrame:
    """Return rows whose label follows from two columns, with a name and the label as further columns."""
    random = np.random.default_rng(0)
    found = pd.DataFrame(random.normal(size=(n, 3)).round(3), columns=list(COLUMNS))
    found.insert(0, "name", [f"patient {i}" for i in range(n)])
    found["label"] = (found["age"] - found["weight"] > 0).map({True: "ill", False: "well"})
    return found


def write_table(folder: Path, n: int = N) -> Path:
    """Write the table as CSV and Parquet; return the first."""
    frame = table(n)
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", index=False)
    return folder / "rows.csv"


def write_module(folder: Path) -> str:
    """Write a module of functions; return its name."""
    (folder / "mine.py").write_text(textwrap.dedent(MODULE))
    return "mine"


class Bright(nn.Module):
    """Says how bright the left and the right half of a picture are."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(8.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x[:, :, :, :4].mean((1, 2, 3)), x[:, :, :, 4:].mean((1, 2, 3))
        return self.scale * torch.stack([left - right, right - left], 1)


def pictures(n: int = 24) -> np.ndarray:
    """Return grey pictures `(n, 8, 8)` of 8 bits, each bright on one side."""
    found = np.random.default_rng(0).integers(0, 60, (n, 8, 8))
    for i, one in enumerate(found):
        one[2:5, 1 + 4 * (i % 2) : 3 + 4 * (i % 2)] += 190
    return found.astype(np.uint8)


def write_pictures(folder: Path, n: int = 24) -> Path:
    """Write the pictures into a folder."""
    from PIL import Image

    place = folder / "pictures"
    place.mkdir()
    for i, one in enumerate(pictures(n)):
        Image.fromarray(one).save(place / f"{i:02}.png")
    return place


def write_graph(folder: Path, **arrays: Any) -> Path:
    """Write a ring of 40 nodes with a number each; return its file."""
    n = 40
    ring = np.arange(n)
    edges = np.stack([np.concatenate([ring, (ring + 1) % n]), np.concatenate([(ring + 1) % n, ring])])
    x = np.random.default_rng(0).normal(size=(n, 1)).astype(np.float32)
    given: dict[str, Any] = {"x": x, "edge_index": edges, "nodes": np.arange(6)} | arrays
    np.savez(folder / "graph.npz", **given)
    return folder / "graph.npz"


def onnx_table(path: Path) -> None:
    """Write a logistic regression in ONNX: label and probabilities, as converters do."""
    from onnx import TensorProto, checker, helper, save

    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[-2.0, 0.0, 2.0, 2.0, 0.0, -2.0],
        intercepts=[0.0, 0.0],
        classlabels_strings=["well", "ill"],
        post_transform="SOFTMAX",
    )
    zipped = helper.make_node("ZipMap", ["scores"], ["told"], domain="ai.onnx.ml", classlabels_strings=["well", "ill"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])
    label = helper.make_tensor_value_info("label", TensorProto.STRING, [None])
    kind = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    )
    told = helper.make_value_info("told", kind)
    graph = helper.make_graph([node, zipped], "g", [x], [label, told])
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
    )
    checker.check_model(made)
    save(made, path)


def onnx_pictures(path: Path, batch: int | None = None) -> None:
    """Write a linear network of pictures `(batch, 1, 8, 8)` in ONNX; its logits are those of `Bright`."""
    from onnx import TensorProto, helper, numpy_helper, save

    side = np.where(np.arange(8) < 4, 8 / 32, -8 / 32)
    weights = np.stack([np.tile(side, 8), np.tile(-side, 8)], 1).astype(np.float32)
    nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["logits"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 1, 8, 8])
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 2])
    graph = helper.make_graph(nodes, "g", [x], [out], [numpy_helper.from_array(weights, "w")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def command(*words: object) -> list[str]:
    """Return `fans explain` with these words."""
    return [sys.executable, "-m", "fans.cli", "explain", *map(str, words)]


def run(folder: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `fans explain` in a folder."""
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(command(*words), check=False, cwd=folder, env=env, capture_output=True, text=True)  # noqa: S603


def listed(path: Path) -> Any:
    """Return the inputs of a `results.json`."""
    return json.loads(path.read_text())
