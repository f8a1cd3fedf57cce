"""Imports point one way, and importing `fans` pulls in no optional dependency."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fans"

ALLOWED = {
    "version": set(),
    "core": set(),
    "draws": set(),
    "superpixels": {"core"},
    "spaces": {"core", "superpixels"},
    "report": {"core"},
    "boosters": {"core", "spaces"},
    "task": {"boosters", "core", "spaces"},
    "pns": {"core", "spaces"},
    "trials": {"core", "spaces", "task", "pns", "draws"},
    "uncertainty": {"pns", "spaces", "task", "trials"},
    "estimate": {"core", "spaces", "task", "pns", "draws", "trials", "uncertainty"},
    "explainers": {"core", "spaces", "task", "pns", "draws", "trials", "estimate"},
    "progress": set(),
    "explain": {"core", "spaces", "task", "pns", "trials", "estimate", "explainers", "progress"},
    "metrics": {"core", "spaces", "draws"},
    "data": {"core"},
    "models": {"core", "data"},
    "train": {"core", "data", "models", "version"},
    "train_graph": {"core", "data", "models", "version"},
    "runs": {"core", "version"},
    "demo": {"core", "explain", "data", "models", "report", "spaces"},
    "evaluate": {"core", "explain", "explainers", "metrics", "spaces", "task"},
    "adapters": {"core", "explain", "spaces"},
    "experiments": {
        *("core", "data", "models", "spaces", "pns", "explain", "explainers", "evaluate", "metrics", "report", "runs"),
        "version",
    },
    "listing": {"core", "data", "experiments", "explainers", "metrics"},
    "cli": {"core", "demo", "version"},
}
"""What each module, or shelf of modules, may import of ours at its top."""


def parts(path: Path) -> list[str]:
    return list(path.relative_to(SOURCE).with_suffix("").parts)


def imports(path: Path, *, top_only: bool) -> set[tuple[str, ...]]:
    """The modules of ours that a file imports, as paths below `fans`."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_only else list(ast.walk(tree))
    found: set[tuple[str, ...]] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {tuple(a.name.split(".")[1:]) for a in node.names if a.name.split(".")[0] == "fans"}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fans":
            below = tuple(node.module.split(".")[1:])
            found |= {below} if below else {(a.name,) for a in node.names}
    return found


FILES = [p for p in sorted(SOURCE.rglob("*.py")) if parts(p) != ["__init__"]]


@pytest.mark.parametrize("path", FILES, ids=lambda p: "/".join(parts(p)))
def test_imports_point_one_way(path):
    home = parts(path)
    shelf = home[0]
    assert shelf in ALLOWED, f"say in ALLOWED what {shelf} may import"
    # `core` may call into the report when asked to draw: inside a function, never at the top.
    for module in imports(path, top_only=shelf in {"core", "cli"}):
        if module[0] == shelf:
            assert len(home) > 1, f"{home} imports itself"
            free = shelf == "report" or home[-1] == "__init__"  # a shelf's front offers what its files hold
            assert free or module[1].startswith("_"), f"{home} imports its sibling {module}"
        else:
            assert module[0] in ALLOWED[shelf], f"{home} imports {module}"


def test_core_reaches_the_report_only_when_asked():
    lazy = imports(SOURCE / "core.py", top_only=False)
    assert {module[0] for module in lazy} <= {"report"}


def test_importing_fans_needs_no_extra():
    code = (
        "import sys\n"
        "for name in ('pandas', 'sklearn', 'matplotlib', 'captum', 'shap', 'torch_geometric', 'PIL', 'skimage'):\n"
        "    sys.modules[name] = None\n"
        "import fans, numpy as np\n"
        "rows = np.random.default_rng(0).normal(size=(60, 3))\n"
        "e = fans.Explainer(lambda x: x[:, 0], rows)(rows[:2])\n"
        "assert len(e.sentences) == 2 and e._repr_html_()\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)  # noqa: S603
