"""Imports point one way, and importing `fans` pulls in no optional dependency."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fans"

FLOW = (
    ("version", "types", "errors", "progress", "moved", "modes", "meter", "memory"),
    ("wording", "registry", "files", "completion"),
    ("joining",),
    ("result", "explanation", "curve"),
    ("report",),
    ("modalities",),
    ("spaces",),
    ("boosters",),
    ("outputs",),
    ("model",),
    ("task",),
    ("engine",),
    ("methods",),
    ("diagram",),
    ("explainer", "hypothesis"),
    ("metrics",),
    ("cases",),
    ("evaluation",),
    ("datasets",),
    ("networks",),
    ("runs",),
    ("studies", "own"),
    ("demo", "listing"),
    ("serve",),
    ("adapters", "cli"),
)
"""The rooms in the order in which data flows: none imports what comes later, nor what stands beside it."""

CLOSED = {
    "metrics": {"types", "errors", "registry", "engine", "metrics", "modes", "wording"},
    "datasets": {"types", "errors", "registry", "files", "datasets", "progress"},
    "networks": {"types", "errors", "registry", "files", "datasets", "networks", "version"},
    "runs": {"types", "errors", "registry", "files", "version", "runs", "wording"},
    "report": {"types", "errors", "wording", "joining", "result", "explanation", "curve", "report", "files"},
}
"""Rooms that know less than what comes before them: metrics no method, a run no study, a report no model."""

WIRED = {"experiments/_tables"}
"""Modules that put siblings together."""


def parts(path: Path) -> list[str]:
    return list(path.relative_to(SOURCE).with_suffix("").parts)


def imports(path: Path, *, top_only: bool) -> set[tuple[str, ...]]:
    """The modules of ours that a file imports, as paths below `fans`."""
    tree = ast.parse(path.read_text())
    typed = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    for block in typed:  # imports for types alone
        block.body = [ast.Pass()]
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
PLACE = {room: place for place, rooms in enumerate(FLOW) for room in rooms}


@pytest.mark.parametrize("path", FILES, ids=lambda p: "/".join(parts(p)))
def test_imports_point_one_way(path):
    home = parts(path)
    room = home[0]
    assert room in PLACE, f"say in FLOW where {room} stands"
    # Results ask the report and their presenter to draw: inside a function, never at the top.
    for module in imports(path, top_only=room in {"result", "explanation", "curve", "cli", "moved"}):
        if module[0] != room:
            assert PLACE[module[0]] < PLACE[room], f"{home} imports {module}, which comes later"
        assert module[0] in CLOSED.get(room, PLACE), f"{home} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: "/".join(parts(p)))
def test_no_package_imports_what_is_private_to_another(path):
    home = parts(path)
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fans":
            below = node.module.split(".")[1:]
            inside = below[:1] == home[:1] and len(home) > 1
            private = [name for name in (*below, *(a.name for a in node.names)) if name.startswith("_")]
            assert inside or not [n for n in private if not n.startswith("__")], f"{home} imports {private}"


def test_nothing_is_called_shared():
    assert not list(SOURCE.rglob("_shared.py"))


def test_no_module_is_shadowed_by_a_function():
    """Whatever `fans` and its packages export is not a module's name as well."""
    for init in SOURCE.rglob("__init__.py"):
        exported = {
            a.asname or a.name
            for n in ast.parse(init.read_text()).body
            if isinstance(n, ast.ImportFrom)
            for a in n.names
            if (n.module or "").count(".") > 0
        }
        modules = {p.stem for p in init.parent.glob("*.py")} | {
            p.parent.name for p in init.parent.glob("*/__init__.py")
        }
        assert not exported & modules, f"{init} exports {exported & modules}"


def test_an_explanation_reaches_the_report_only_when_asked():
    lazy = imports(SOURCE / "explanation.py", top_only=False)
    assert {module[0] for module in lazy} <= {"report", "modalities", "errors", "joining", "types", "files", "serve"}


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
