"""What is released: one version, whole packages that run without the checkout, and Pythons that can read them."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fans.version import __version__

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fans"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
OLDEST = tuple(map(int, PROJECT["project"]["requires-python"].removeprefix(">=").split(".")))
STATED = [
    found.group(1)
    for line in PROJECT["project"]["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
]


def test_the_version_has_one_place():
    """The file that says it is alone in saying it, but for the citation, which must not run anything to know it."""
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", __version__)
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "fans.version.__version__"}
    said = [path for path in SOURCE.rglob("*.py") if re.search(r"^__version__\s*=", path.read_text(), flags=re.M)]
    assert said == [SOURCE / "version.py"]
    (cited,) = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    assert cited == __version__


def test_the_changelog_has_the_versions():
    """What is not released comes first; a version is there once it is."""
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert headings[0] == "Unreleased"
    assert len(set(headings)) == len(headings)


def test_the_pythons_are_stated():
    """As in `requires-python`, and as in what the linter and the types are checked for."""
    oldest = ".".join(map(str, OLDEST))
    assert STATED[0] == oldest
    assert STATED == ["3.11", "3.12", "3.13"]
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")


# --- Packages --------------------------------------------------------------------------------------------------------

LONG = pytest.mark.long("builds the packages and installs them")


def run(*command: Any, cwd: Path, **environment: str) -> str:
    """What a command prints, without anything of this checkout on its path."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FANS_"))}
    done = subprocess.run(  # noqa: S603
        list(map(str, command)), cwd=cwd, env=known | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The source package, the wheel made of it, and the wheel made of the checkout."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("packages")
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", ".*")
    for name in ("src", "checkpoints", "tests"):
        shutil.copytree(ROOT / name, folder / "tree" / name, symlinks=True, ignore=leave)
    for path in ROOT.glob("*"):
        if path.is_file():
            shutil.copy(path, folder / "tree")
    build = (sys.executable, "-m", "build", "--no-isolation")
    run(*build, "--outdir", folder / "both", folder / "tree", cwd=folder)
    run(*build, "--wheel", "--outdir", folder / "wheel", folder / "tree", cwd=folder)
    (sdist,) = folder.glob("both/*.tar.gz")
    (of_sdist,), (of_tree,) = folder.glob("both/*.whl"), folder.glob("wheel/*.whl")
    return sdist, of_sdist, of_tree


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@LONG
def test_the_source_package_makes_the_same_wheel(packages):
    sdist, of_sdist, of_tree = packages
    assert sdist.name == f"fans-{__version__}.tar.gz"
    assert of_sdist.name == of_tree.name == f"fans-{__version__}-py3-none-any.whl"
    assert contents(of_sdist) == contents(of_tree)


@LONG
def test_the_wheel_has_all_of_the_package_and_nothing_else(packages):
    """Every file below `src/fans`, the license, and what a package says of itself."""
    found = contents(packages[1])
    own = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    own |= {SOURCE / "checkpoints" / path.name for path in (ROOT / "checkpoints").glob("*.[js]*")}
    expected = {f"fans/{path.relative_to(SOURCE)}" for path in own if not path.name.endswith((".partial", ".lock"))}
    about = f"fans-{__version__}.dist-info/"
    assert {name for name in found if not name.startswith(about)} == expected
    assert found[f"{about}licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    told = found[f"{about}METADATA"].decode()
    assert f"\nVersion: {__version__}\n" in told
    assert all(f"\nClassifier: Programming Language :: Python :: {version}\n" in told for version in STATED)
    with tarfile.open(packages[0]) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    kept = {"src", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "MANIFEST.in", "pyproject.toml"}
    assert top == kept | {"PKG-INFO", "setup.cfg"}


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory):
    """An environment with the wheel, and this one's packages but for `fans` itself."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", packages[1], cwd=folder)
    here = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # A folder named in a `.pth` file is searched, but the `.pth` files in it, as of an editable `fans`, are not read.
    (Path(here) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


@LONG
def test_the_installed_package_is_the_one_that_runs(installed):
    python, elsewhere = installed / "venv" / "bin" / "python", installed / "elsewhere"
    elsewhere.mkdir()
    where = run(python, "-c", "import fans; print(fans.__file__, fans.__version__)", cwd=elsewhere)
    assert where.startswith(str(installed))
    assert where.split()[1] == __version__
    assert run(python.parent / "fans", "--version", cwd=elsewhere) == f"fans {__version__}\n"
    assert "banzhaf" in run(python.parent / "fans", "list", "methods", cwd=elsewhere)
    code = re.search(r"## Six lines.*?```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    said = run(python, "-c", code.group(1), cwd=elsewhere, COLUMNS="80")
    claimed = " ".join(line.removeprefix("# ") for line in code.group(1).splitlines() if line.startswith("# "))
    assert said.split() == claimed.split()


@LONG
def test_the_installed_package_runs_the_demo(installed):
    """Models, data and styles all come along: nothing is downloaded."""
    folder = installed / "demo"
    folder.mkdir()
    said = run(
        installed / "venv" / "bin" / "fans", "demo", cwd=folder, FANS_DATA=str(folder), no_proxy="", COLUMNS="80"
    )
    assert "explanations in" in said
    for name in ("table.png", "image.png", "graph.png", "demo.html"):
        assert (folder / "fans-demo" / name).stat().st_size > 10_000


# --- Pythons ---------------------------------------------------------------------------------------------------------


def interpreter(version: str) -> str:
    """A Python of this version on this machine."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    made = [*(Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"), shutil.which(f"python{version}")]
    for found in map(str, filter(None, made)):  # pyenv has one by each name that stands for none
        if subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0:  # noqa: S603
            return found
    pytest.skip(f"there is no Python {version} on this machine")


READS = """
import ast, importlib, pathlib, sys, warnings
warnings.simplefilter("error")
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    tree = ast.parse(path.read_text(), str(path))
    compile(tree, str(path), "exec")
    for node in ast.walk(tree):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module]
        for name in modules:
            if name.partition(".")[0] in sys.stdlib_module_names:
                module = importlib.import_module(name)
                for one in node.names if isinstance(node, ast.ImportFrom) else ():
                    assert hasattr(module, one.name) or importlib.import_module(f"{name}.{one.name}"), (path, one.name)
print("read", sys.version_info[:2])
"""
"""Compiles every module with warnings as errors, and looks up whatever it takes from the standard library."""


@pytest.mark.parametrize("version", STATED)
def test_this_python_reads_every_module(version, tmp_path):
    """Also where there is no torch for it: its syntax, and what its standard library has."""
    python = interpreter(version)
    number = tuple(map(int, version.split(".")))
    assert run(python, "-I", "-c", READS, SOURCE, cwd=tmp_path) == f"read {number}\n"


@LONG
@pytest.mark.parametrize("version", STATED)
def test_this_python_runs_the_wheel(version, packages, tmp_path):
    """Where it has what `fans` depends on."""
    python = interpreter(version)
    needs = "import filelock, numpy, rich, safetensors, torch"
    if subprocess.run([python, "-c", needs], check=False, capture_output=True).returncode:  # noqa: S603
        pytest.skip(f"Python {version} on this machine lacks torch or another dependency")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--target", tmp_path / "there", packages[1], cwd=tmp_path)
    code = (
        "import fans, numpy as np; rows = np.random.default_rng(0).normal(0, 1.5, (200, 3)); "
        "e = fans.Explainer(lambda x: (x[:, 0] - x[:, 1] > 1).astype(float), rows, baseline=0)(np.array([3.0, 1, 1])); "
        "print(fans.__file__, e.chosen_names())"
    )
    said = run(python, "-c", code, cwd=tmp_path, PYTHONPATH=str(tmp_path / "there"))
    assert said == f"{tmp_path / 'there' / 'fans' / '__init__.py'} ['x1']\n"
