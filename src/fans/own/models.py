"""A user's own model, from a file or a module that the user names.

Formats that hold numbers alone are read as they are. A pickle runs whatever its author put in it as soon as it is
loaded, so one is read only where the user names that very file as trusted.
"""

import importlib
import inspect
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import FansError, InputError, extra
from fans.own.data import file_sha256
from fans.own.wants import Wants
from fans.types import Array

PICKLES = (".pkl", ".pickle", ".joblib", ".sav")

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Loaded:
    """A model, and what it takes.

    Attributes:
        model: as an explainer takes it.
        wants: what it says of its inputs.
        about: `name`, `format` and `sha256`, for the plan of a run.
        again: whether it may be loaded again because a run's folder names it: its format holds nothing that runs.
    """

    model: Any
    wants: Wants
    about: Mapping[str, str]
    again: bool = False


def is_module(name: str) -> bool:
    """Tell whether a model is named as `module:object`, and is no file of that name."""
    return bool(_MODULE.fullmatch(name)) and not Path(name).exists()


def load_model(name: str, trust: Sequence[Path] = ()) -> Loaded:
    """Return the model in a file, or the object `module:object`.

    Args:
        name: of either.
        trust: the files that may be loaded even if that runs what is in them.

    Raises:
        InputError: it is none of the formats known, is damaged, or would have to be trusted.
    """
    if is_module(name):
        return _of_module(name)
    path = Path(name)
    if not path.is_file():
        raise InputError(
            f"Expected a model in a file, or as module:object, got nothing at {name!r}; check the name, and for a "
            "module that it is below the current folder"
        )
    suffix = path.suffix.lower()
    readers: Mapping[str, Callable[[Path, bool], tuple[Any, Wants]]] = {
        ".skops": _skops,
        **dict.fromkeys((".json", ".ubj"), _xgboost),
        ".txt": _lightgbm,
        ".onnx": _onnx,
        ".pt2": _exported,
        **dict.fromkeys((".pt", ".ts", ".pth"), _torchscript),
        ".safetensors": _checkpoint,
        **dict.fromkeys(PICKLES, _pickle),
    }
    if suffix not in readers:
        raise InputError(f"Expected a model as {', '.join(readers)} or module:object, got {path.name}")
    if path.stat().st_size == 0:
        raise InputError(f"Expected a model in {path}, got an empty file")
    trusted = any(path.resolve() == Path(one).resolve() for one in trust)
    model, wants = readers[suffix](path, trusted)
    about = {"name": path.name, "format": suffix, "sha256": file_sha256(path)}
    return Loaded(model, wants, about, again=suffix in SAFE and not (trusted and suffix == ".skops"))


SAFE = (".skops", ".json", ".ubj", ".txt", ".onnx", ".safetensors")
"""Formats that hold nothing that runs: a run's folder may name such a file."""


@contextmanager
def _loading(path: Path, expected: str, package: str = "") -> Iterator[None]:
    """Tell in one sentence of a file that is not what it should be, whatever the library that reads it says."""
    try:
        yield
    except FansError:
        raise
    except ImportError as error:
        raise extra(str(error.name or package), "explain", f"a model in {path.name}") from None
    except Exception as error:  # a file of anybody's making
        text = re.sub(r"^\[[\d:]+\] \S+:\d+: |\n\s*Stack trace.*", "", str(error), flags=re.DOTALL)
        said = " ".join(text.split())[:200] or type(error).__name__
        raise InputError(f"Expected {expected}, got {path}, which is not one: {said}") from None


# --- scikit-learn ----------------------------------------------------------------------------------------------------


def _skops(path: Path, trusted: bool) -> tuple[Any, Wants]:
    """Read an estimator that `skops.io.dump` wrote; types that skops does not know are refused unless trusted."""
    with _loading(path, "an estimator saved with skops.io.dump", "skops"):
        from skops import io

        unknown = io.get_untrusted_types(file=path)
        if unknown and not trusted:
            listed = ", ".join(map(str, unknown[:5])) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            raise InputError(
                f"Expected {path.name} to hold types that skops knows to be harmless, got {listed}, whose code would "
                f"run; if you know where the file comes from, pass --trust {path}"
            )
        model = io.load(path, trusted=unknown)
    return model, _of_estimator(model)


def _pickle(path: Path, trusted: bool) -> tuple[Any, Wants]:
    """Read a pickle that the user trusts."""
    if not trusted:
        raise InputError(
            f"Expected a model in a format that runs nothing, got {path.name}, a pickle, which runs whatever its "
            f"author put in it as soon as it is loaded; save the model with skops.io.dump, or pass --trust {path} if "
            "you made this file"
        )
    with _loading(path, "an estimator saved with joblib or pickle", "joblib"):
        import joblib

        model = joblib.load(path)
    return model, _of_object(model)


def _of_estimator(model: Any) -> Wants:
    """Return what a fitted estimator of scikit-learn, or one like it, says of its inputs."""
    names = getattr(model, "feature_names_in_", None)
    n = getattr(model, "n_features_in_", None)
    if names is not None:
        return Wants(columns=tuple(str(name) for name in names))
    return Wants(n_columns=n if isinstance(n, int) else None, frame=n is None)


def _of_object(model: Any) -> Wants:
    """Return what any Python object says of its inputs."""
    if isinstance(model, nn.Module):
        return Wants(channels=_first_channels(model), frame=False)
    if type(model).__name__ == "Booster" and type(model).__module__.startswith(("xgboost", "lightgbm")):
        return _of_booster(model)
    return _of_estimator(model)


# --- Boosters --------------------------------------------------------------------------------------------------------


def _xgboost(path: Path, trusted: bool) -> tuple[Any, Wants]:  # noqa: ARG001 - it holds numbers alone
    with _loading(path, "a model saved with XGBoost's save_model", "xgboost"):
        import xgboost

        model = xgboost.Booster(model_file=path)
        return model, _of_booster(model)


def _lightgbm(path: Path, trusted: bool) -> tuple[Any, Wants]:  # noqa: ARG001
    with _loading(path, "a model saved with LightGBM's save_model", "lightgbm"):
        with path.open("rb") as file:
            if not file.read(4096).lstrip().startswith(b"tree"):
                raise ValueError("it does not begin with `tree`")
        import lightgbm

        # LightGBM's reader is not hardened: a damaged file ends the process that reads it.
        reading = "import sys, lightgbm; lightgbm.Booster(model_file=sys.argv[1])"
        if subprocess.run([sys.executable, "-c", reading, str(path)], check=False, capture_output=True).returncode:  # noqa: S603
            raise ValueError("LightGBM fails on it")

        model = lightgbm.Booster(model_file=str(path))
        return model, _of_booster(model)


def _of_booster(model: Any) -> Wants:
    """Return the columns that a booster was trained on."""
    if hasattr(model, "num_features"):
        names, n = model.feature_names, int(model.num_features())
    else:
        names, n = model.feature_name(), int(model.num_feature())
        if names == [f"Column_{k}" for k in range(n)]:  # LightGBM's own names for columns that have none
            names = None
    if not names:
        return Wants(n_columns=n, frame=False)
    return Wants(columns=tuple(str(name) for name in names), categories=True)


# --- ONNX ------------------------------------------------------------------------------------------------------------

_TYPES: Mapping[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": object,
}


class _Session:
    """An ONNX graph, asked for its outputs."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs, self.outputs = self._session.get_inputs(), self._session.get_outputs()
        unknown = [one.type for one in self.inputs if one.type not in _TYPES]
        if unknown or not self.inputs or not self.outputs:
            raise InputError(f"Expected {path.name} with tensors as inputs, got {unknown[0] if unknown else 'none'}")
        first = self.inputs[0].shape[0] if self.inputs[0].shape else None
        self._batch = first if isinstance(first, int) and first > 0 else None

    def ask(self, given: Any, wanted: int) -> Any:
        """Return one of the outputs for rows: an array, a frame, a list of texts."""
        columns = [self._column(given, k) for k in range(len(self.inputs))]
        name = self.outputs[wanted].name

        def run(parts: list[Array]) -> Any:
            return self._session.run([name], dict(zip([one.name for one in self.inputs], parts, strict=True)))[0]

        return run(columns) if self._batch is None else in_batches(run, columns, self._batch)

    def _column(self, given: Any, k: int) -> Array:
        """Return what an input is given: everything, or of several its own column."""
        about = self.inputs[k]
        rank = len(about.shape)
        values = np.asarray(given if len(self.inputs) == 1 else given[about.name])
        if values.ndim < rank:
            values = values.reshape(values.shape + (1,) * (rank - values.ndim))
        return np.ascontiguousarray(values.astype(_TYPES[about.type]))


def in_batches(run: Callable[[list[Array]], Any], columns: list[Array], size: int) -> Any:
    """Ask what takes so many rows, no more and no less, for any number of them: the last ones are filled up."""
    n, found = len(columns[0]), list[Any]()
    for start in range(0, n, size):
        parts = [column[start : start + size] for column in columns]
        short = size - len(parts[0])
        filled = [np.concatenate([part, np.repeat(part[:1], short, 0)]) if short else part for part in parts]
        found.extend(run(filled)[: size - short])
    return np.stack(found) if isinstance(found[0], np.ndarray | np.generic) else found


class OnnxNetwork(nn.Module):
    """A network in ONNX, as a torch module without gradients: its logits are read as a module's are."""

    def __init__(self, session: _Session, output: int) -> None:
        super().__init__()
        self._ask, self._output = session.ask, output

    def forward(self, rows: Tensor) -> Tensor:
        """Return the network's output."""
        return torch.from_numpy(np.array(self._ask(rows.detach().cpu().numpy(), self._output)))


class OnnxClassifier:
    """An estimator in ONNX that tells labels and probabilities.

    Attributes:
        classes_: the labels, as far as the file tells them.
    """

    def __init__(self, session: _Session, output: int, n_classes: int | None) -> None:
        self._ask, self._output = session.ask, output
        self.classes_ = list(range(n_classes)) if n_classes else []

    def look(self, rows: Any) -> None:
        """Learn the names of the classes from what is said of some rows."""
        said = self._ask(rows, self._output)
        if isinstance(said, list):  # of mappings, as skl2onnx has it by default
            self.classes_ = list(said[0])

    def predict_proba(self, rows: Any) -> Array:
        """Return the probability of each class."""
        said = self._ask(rows, self._output)
        if isinstance(said, list):
            return np.array([[one[name] for name in said[0]] for one in said], dtype=np.float64)
        return np.asarray(said, dtype=np.float64)


class OnnxFunction:
    """Any other graph in ONNX, as a function of rows."""

    def __init__(self, session: _Session, output: int) -> None:
        self._ask, self._output = session.ask, output

    def __call__(self, rows: Any) -> Array:
        """Return the graph's output."""
        return np.asarray(self._ask(rows, self._output))


def _onnx(path: Path, trusted: bool) -> tuple[Any, Wants]:  # noqa: ARG001
    with _loading(path, "an ONNX model", "onnxruntime"):
        session = _Session(path)
    wants = _of_session(session)
    kinds = [one.type for one in session.outputs]
    maps = [k for k, kind in enumerate(kinds) if kind.startswith("seq(map")]
    floats = [k for k, kind in enumerate(kinds) if kind in ("tensor(float)", "tensor(double)", "tensor(float16)")]
    labels = [k for k, kind in enumerate(kinds) if kind in ("tensor(int64)", "tensor(string)")]
    if maps:
        return OnnxClassifier(session, maps[0], None), wants
    if not floats:
        raise InputError(f"Expected {path.name} with numbers as output, got {', '.join(kinds)}; export probabilities")
    if labels:
        last = session.outputs[floats[0]].shape[-1:]
        return OnnxClassifier(session, floats[0], last[0] if last and isinstance(last[0], int) else None), wants
    plain = len(session.inputs) == 1 and _TYPES[session.inputs[0].type] is not object
    return (OnnxNetwork if plain else OnnxFunction)(session, floats[0]), wants


def _of_session(session: _Session) -> Wants:
    """Return what an ONNX file says of its inputs."""
    if len(session.inputs) > 1:
        return Wants(columns=tuple(one.name for one in session.inputs))
    return _of_shape(session.inputs[0].shape, text=session.inputs[0].type == "tensor(string)")


def _of_shape(shape: Sequence[Any], *, text: bool = False) -> Wants:
    """Return what a model's shape of inputs means; what is no number is anything."""
    sizes = [side if isinstance(side, int) and side > 0 else None for side in shape]
    if len(sizes) == 4:
        last = sizes[3] in (1, 3) and sizes[1] not in (1, 3)
        channels, height, width = (sizes[3], sizes[1], sizes[2]) if last else sizes[1:]
        return Wants(frame=False, channels=channels, height=height, width=width, channels_last=last)
    return Wants(n_columns=None if text or len(sizes) != 2 else sizes[1], frame=text)


# --- torch -----------------------------------------------------------------------------------------------------------


class _FixedBatch(nn.Module):
    """An exported program that takes so many rows, no more and no less."""

    def __init__(self, program: nn.Module, size: int) -> None:
        super().__init__()
        self.program, self._size = program, size

    def forward(self, rows: Tensor) -> Tensor:
        """Return the program's output for any number of rows."""
        n = len(rows)
        short = -n % self._size
        filled = torch.cat([rows, rows[:1].expand(short, *rows.shape[1:])]) if short else rows
        return torch.cat([self.program(part) for part in torch.split(filled, self._size)])[:n]


def _exported(path: Path, trusted: bool) -> tuple[Any, Wants]:  # noqa: ARG001 - the user named it
    with _loading(path, "a program saved with torch.export.save"):
        if not zipfile.is_zipfile(path):  # torch would write pages about it
            raise ValueError("it is no archive")
        program = torch.export.load(path)
        inside = program.module()
        names = program.graph_signature.user_inputs
        found = [node.meta["val"].shape for node in program.graph.nodes if node.name in names and "val" in node.meta]
    if len(found) != 1:
        raise InputError(
            f"Expected {path.name} to take one tensor, got a program of {len(found)}; name it as module:object"
        )
    shape = [side if isinstance(side, int) else None for side in found[0]]
    size = shape[0] if shape else None
    return (inside if size is None else _FixedBatch(inside, size)), _of_shape(shape)


def _torchscript(path: Path, trusted: bool) -> tuple[Any, Wants]:
    if not _is_script(path):
        if not trusted:
            raise InputError(
                f"Expected TorchScript (torch.jit.save) in {path.name}, got a damaged file or a pickle of torch.save, "
                "which can run whatever its author put in it; export the module with torch.export.save to a .pt2, or "
                f"name a function that builds it as module:function, or pass --trust {path} if you made this file"
            )
        with _loading(path, "a module saved with torch.save"):
            found = torch.load(path, map_location="cpu", weights_only=False)
        if not isinstance(found, nn.Module):
            raise InputError(
                f"Expected a module in {path.name}, got {type(found).__name__}, weights without the network that they "
                "are of; name a function that builds it and loads them as module:function"
            )
        return found, _of_object(found)
    with _loading(path, "TorchScript saved with torch.jit.save"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather have .pt2
        model = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    return model, _of_object(model)


def _is_script(path: Path) -> bool:
    """Tell TorchScript, which has code of its own kind, from a pickle of `torch.save`."""
    if not zipfile.is_zipfile(path):
        return False
    with _loading(path, "TorchScript saved with torch.jit.save"), zipfile.ZipFile(path) as packed:
        return any("/code/" in name for name in packed.namelist())


def _checkpoint(path: Path, trusted: bool) -> tuple[Any, Wants]:  # noqa: ARG001
    """Read a checkpoint of one of our own networks, whose card lies beside it."""
    from fans.networks import load

    if not path.with_suffix(".json").is_file():
        raise InputError(
            f"Expected the card {path.with_suffix('.json').name} beside {path.name}, got none: weights alone are no "
            "model; name a function that builds it and loads them as module:function"
        )
    with _loading(path, "a checkpoint of `fans train`"):
        model, _ = load(path.stem, path.parent)
    return model, _of_object(model)


def _first_channels(model: nn.Module) -> int | None:
    """Return the channels that the first convolution takes, if those of pictures."""
    first = next((p.shape[1] for p in model.parameters() if p.ndim == 4), None)
    return first if first in (1, 3) else None


# --- module:object ---------------------------------------------------------------------------------------------------


def _of_module(name: str) -> Loaded:
    """Return an object of a module below the current folder, or what it returns if it is a function of nothing."""
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"Expected a module {module_name!r} that can be imported from {here}, got none called {error.name!r}; "
            "check the name, or install it"
        ) from None
    except Exception as error:
        raise InputError(
            f"Expected a module {module_name!r} that can be imported, got {type(error).__name__} from it: {error}"
        ) from None
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [one for one in vars(found) if not one.startswith("_")][:10]
            raise InputError(f"Expected {part!r} in {module_name}, got a module with {', '.join(public) or 'nothing'}")
        found = getattr(found, part)
    if _makes(found):
        try:
            found = found()
        except Exception as error:
            raise InputError(
                f"Expected {name} to return a model, got {type(error).__name__} from it: {error}"
            ) from None
    file = getattr(module, "__file__", None)
    sha256 = file_sha256(Path(file)) if file and Path(file).is_file() else ""
    return Loaded(found, _of_object(found), {"name": name, "format": "module:object", "sha256": sha256})


def _makes(found: Any) -> bool:
    """Tell whether this is a function, or a class, that makes a model of nothing, rather than a model."""
    if (
        isinstance(found, nn.Module)
        or not callable(found)
        or (hasattr(found, "predict") and not isinstance(found, type))
    ):
        return False
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return False
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in loose for p in parameters)
