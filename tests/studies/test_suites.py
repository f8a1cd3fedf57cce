"""Several studies one after the other, and one page of them."""

import pytest

from fans.cli import main
from fans.errors import FansError
from fans.runs import Cell, Result
from fans.studies import Asked, Rendered, Study, results, suites


@pytest.fixture
def two(monkeypatch):
    """A suite of two small studies, one of which may fail; and a third that is not there."""
    monkeypatch.setattr(Study, "kinds", dict(Study.kinds))
    broken = set[str]()

    def made(name: str) -> type[Study]:
        class Small(Study):
            kind = name

            def plan(self, asked):
                return [
                    {"dataset": name, "shard": [i, i + 1], "seed": 0} for i in range({"quick": 1}.get(asked.size, 3))
                ]

            def do(self, _: Cell) -> Result:
                if name in broken:
                    raise ValueError("out of paper")
                return Result({"value": [1.0]}, 5)

            @classmethod
            def render(cls, run):
                return Rendered(f"{name} has {len(run.done())} of {len(run.cells)}\n", {"all.txt": b"done"})

        return Small

    made("first"), made("second")
    monkeypatch.setattr(suites, "SUITES", {"both": ("second", "none", "first")})
    return broken


@pytest.mark.usefixtures("two")
def test_studies_of_a_suite_are_done_in_order_and_gone_on_with(tmp_path):
    told: list[str] = []
    suites.run("both", Asked(size="quick"), tmp_path, tell=told.append)
    assert [line.partition(":")[0] for line in told if "written to" in line] == ["second", "first"]
    assert told[0].split()[:6] == ["second", "1", "of", "1", "cells", "left,"]
    page = (tmp_path / "both.html").read_text()
    assert page.index("second has 1 of 1") < page.index("first has 1 of 1")
    assert (tmp_path / "first" / "all.txt").read_bytes() == b"done"
    again: list[str] = []
    suites.run("both", Asked(size="quick"), tmp_path, tell=again.append)
    assert again[0].split()[:4] == ["second", "0", "of", "1"]
    suites.run("both", Asked(), tmp_path / "other", tell=again.append, dry=True)
    assert not (tmp_path / "other").exists()


def test_what_fails_keeps_the_others_from_nothing(two, tmp_path):
    two.add("second")
    with pytest.raises(FansError, match=r"all of both done, got .* second: Expected all 1 cells done.*out of paper"):
        suites.run("both", Asked(size="quick"), tmp_path)
    assert "first has 1 of 1" in (tmp_path / "both.html").read_text()
    two.clear()
    suites.run("both", Asked(size="quick"), tmp_path)
    assert "second has 1 of 1" in (tmp_path / "both.html").read_text()


@pytest.mark.usefixtures("two")
def test_nothing_is_begun_where_data_are_missing(tmp_path, monkeypatch):
    def missing(*_: object) -> None:
        raise FansError("Expected data, got none")

    monkeypatch.setattr(Study.kinds["first"], "check", missing)
    with pytest.raises(FansError, match="Expected data"):
        suites.run("both", Asked(), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("two")
def test_the_command(tmp_path, capsys):
    assert main(["run", "both", "--out", str(tmp_path / "runs"), "--quick", "--dry-run"]) == 0
    assert "in all with --workers 1" in capsys.readouterr().out
    assert main(["run", "both", "--out", str(tmp_path / "runs"), "--quick"]) == 0
    assert f"One page: {tmp_path / 'runs' / 'both.html'}" in capsys.readouterr().out
    assert main(["run", "both", "--n", "3"]) == 1
    assert "with --quick, --full or neither, got --n" in capsys.readouterr().err
    assert main(["list", "experiments"]) == 0
    assert "fans run both" in capsys.readouterr().out


@pytest.mark.usefixtures("two")
def test_where_pages_are_written(tmp_path, capsys, monkeypatch):
    for name in ("first", "second"):
        assert main(["run", name, "--out", str(tmp_path / name), "--quick"]) == 0
    folders = [str(tmp_path / name) for name in ("first", "second")]
    assert (tmp_path / "first" / "report.html").is_file()
    assert main(["report", *folders]) == 0
    assert f"One page: {tmp_path / 'paper.html'}" in capsys.readouterr().out
    assert main(["report", *folders, "--html", str(tmp_path / "chosen.html")]) == 0
    assert "first has" in (tmp_path / "chosen.html").read_text()
    assert main(["report", *folders, "--html", str(tmp_path / "none" / "chosen.html")]) == 1
    assert "chosen.html" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert results.write_page([results.opened(tmp_path / "first")] * 2).name == "report.html"


def test_the_paper_is_its_tables_and_what_else_is_there():
    assert {"table1", "table2"} <= set(suites.members("paper"))
    assert set(suites.members("paper")) <= set(suites.SUITES["paper"])
