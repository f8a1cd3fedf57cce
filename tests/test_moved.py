"""Old import paths still work, with one warning each."""

import importlib
import subprocess
import sys

import pytest

from fans import moved

OLD = [
    ("fans.core", "Explanation"),
    ("fans.core", "InputError"),
    ("fans.pns", "Settings"),
    ("fans.evaluate", "Evaluation"),
    ("fans.explain", "Explainer"),
    ("fans.estimate", "pns"),
    ("fans.spaces.table", "Table"),
    ("fans.explainers.gradients", "IntegratedGradients"),
    ("fans.data", "load_images"),
    ("fans.data.images", "ImageDataset"),
    ("fans.models", "LeNet5"),
    ("fans.train", "train"),
    ("fans.experiments.results", "verify"),
    ("fans.superpixels", "superpixels"),
]


@pytest.mark.parametrize(("module", "name"), OLD)
def test_an_old_path_leads_to_the_new_one_and_says_so_once(module, name):
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        f"    from {module} import {name}\n"
        f"    from {module} import {name} as again\n"
        "assert again is " + name + "\n"
        "own = [w for w in seen if 'moved' in str(w.message)]\n"
        "assert [w.category for w in own] == [DeprecationWarning], seen\n"
        "assert own[0].filename == '<string>', own[0].filename\n"
        "print(own[0].message)\n"
        "import fans, inspect\n"
        "assert inspect.isfunction(fans.pns) and inspect.isfunction(fans.evaluate)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    home = done.stdout.strip().rpartition(" from ")[2]
    assert hasattr(importlib.import_module(home), name)


@pytest.mark.parametrize("homes", moved.MOVED.values())
def test_every_new_home_is_there(homes):
    for home in homes:
        importlib.import_module(home)


def test_what_never_was_is_not_found():
    with pytest.raises(AttributeError, match="nothing"):
        importlib.import_module("fans.core").nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fans.data.nothing")
