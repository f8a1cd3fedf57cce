"""The page of plots: its code runs as printed and draws every picture that the page shows."""

import re
from pathlib import Path

import pytest

from tools.plots import PAGE, PICTURES, pictures, run


@pytest.mark.slow("runs the code of a page")
@pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")
def test_the_page_draws_its_pictures(tmp_path, monkeypatch):
    for package in ("matplotlib", "sklearn", "torch_geometric", "shap"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    names = run(page)
    shown = pictures(page)
    assert len(shown) == len(set(shown)) == 11
    for name in set(shown) - {"notebook.png"}:  # which is taken in a browser
        assert Path(name).read_bytes().startswith(b"\x89PNG"), name
    assert Path("graphs.html").read_text().count("<script>") == 1
    for view in ("explainer", "curve", "explanation"):
        assert "class=" in names[view]._repr_html_()


def test_every_picture_is_kept_and_small():
    kept = {path.name: path.stat().st_size for path in PICTURES.iterdir()}
    assert sorted(kept) == sorted(pictures(PAGE.read_text()))
    assert max(kept.values()) < 100_000


def test_kinds_are_those_of_the_library():
    from fans.report.plots import KINDS

    said = set(re.findall(r'kind="(\w+)"', PAGE.read_text()))
    assert said == set(KINDS) - {"input"}
