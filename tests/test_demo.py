"""The demo does its job and says where it left the picture."""

from fans import cli


def test_the_demo(tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "95% interval" in out
    assert "perturbing everything else leaves it" in out
    assert (tmp_path / "table.png").exists()
    assert (tmp_path / "table.html").exists()
    assert "table.png" in out
