"""Cells that are forgotten are done again, and no others."""

from fans.runs import Ledger, Run
from tests.runs.helper import PLAN, cells, do


def test_forgotten_cells_are_done_again_wherever_their_records_are(tmp_path):
    run = Run.create(tmp_path, PLAN, cells(4))
    run.work(do)
    before = (tmp_path / "records.jsonl").read_bytes().splitlines()
    Ledger.open(tmp_path).forget([run.cells[1], run.cells[3]])
    again = Run.open(tmp_path)
    assert [cell.key for cell in again.left()] == [run.cells[1].key, run.cells[3].key]
    assert (tmp_path / "records.jsonl").read_bytes().splitlines() == [before[0], before[2]]
    again.attempt(run.cells[1], do)  # now in a file of its own
    again.forget([run.cells[1]])
    assert [cell.key for cell in again.left()] == [run.cells[1].key, run.cells[3].key]
    again.work(do)
    assert not Run.open(tmp_path).left()
