"""Shells complete what the parser takes: bash is asked itself."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fans
from fans import cli, completion
from fans.version import __version__

PARSER = cli._parser()
COMMANDS = {
    name: inner
    for action in PARSER._actions
    if isinstance(action, argparse._SubParsersAction)
    for name, inner in action.choices.items()
}


def offered(tmp_path: Path, *words: str) -> list[str]:
    """What bash offers after these words, the last of which is being written."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash on this machine")
    (tmp_path / "fans.bash").write_text(completion.script(PARSER, "bash"))
    asking = (
        "source fans.bash; complete -p fans >/dev/null || exit 9; "
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fans; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = [bash, "--norc", "-uc", asking, "bash", "fans", *words]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)  # noqa: S603
    assert not said.stderr
    return said.stdout.split()


def test_every_command_and_option_is_offered(tmp_path):
    """What the parser itself says there is."""
    assert set(offered(tmp_path, "")) == set(COMMANDS)
    for name, inner in COMMANDS.items():
        options = {option for action in inner._actions for option in action.option_strings}
        assert set(offered(tmp_path, name, "-")) == options, name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], {"report"}),
        (["--v"], {"--version"}),
        (["run", "--dr"], {"--dry-run"}),
        (["run", "--workers", "2", "--dr"], {"--dry-run"}),
        (["list", "met"], {"methods", "metrics"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["run", ""], set()),  # files, which bash adds itself
        (["demo", "--out", ""], set()),
        (["unknown", "-"], set()),
    ],
)
def test_bash_offers_what_fits(tmp_path, words, expected):
    assert set(offered(tmp_path, *words)) == expected


def test_values_of_an_option_that_are_known_are_offered(tmp_path, monkeypatch):
    parser = argparse.ArgumentParser(prog="fans")
    one = parser.add_subparsers().add_parser("one", help="it's [one]: `two`")
    one.add_argument("--effort", choices=("low", "high"), help="how $much")
    one.add_argument("--hidden", help=argparse.SUPPRESS)
    monkeypatch.setattr(sys.modules[__name__], "PARSER", parser)
    assert set(offered(tmp_path, "one", "--effort", "")) == {"low", "high"}
    assert set(offered(tmp_path, "one", "--effort", "h")) == {"high"}
    assert "--hidden" not in offered(tmp_path, "one", "-")
    zsh, fish = (completion.script(parser, shell) for shell in ("zsh", "fish"))
    assert "'one:it\u2019s one, two'" in zsh
    assert "'--effort[how much]:value:(low high)'" in zsh
    assert "-l effort -d 'how much' -r -f -a 'low high'" in fish


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_scripts_are_no_nonsense_to_their_shells(tmp_path, shell, capsys):
    """`fans completion` prints them, with every option of every command, and the shell reads them."""
    assert cli.main(["completion", shell]) == 0
    made = capsys.readouterr().out
    for inner in COMMANDS.values():
        names = {option for action in inner._actions for option in action.option_strings if option.startswith("--")}
        assert all((f"-l {name[2:]} " if shell == "fish" else name) in made for name in names)
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"there is no {shell} on this machine to read it")
    (tmp_path / "script").write_text(made)
    subprocess.run([path, "-n", "script"], check=True, cwd=tmp_path)  # noqa: S603


def test_other_shells_are_refused(capsys):
    with pytest.raises(fans.InputError, match="Expected the shell to be one of 'bash', 'zsh', 'fish', got 'tcsh'"):
        completion.script(PARSER, "tcsh")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["completion", "tcsh"])
    assert stopped.value.code == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err


def test_the_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"fans {__version__}\n"
