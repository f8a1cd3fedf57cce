"""The command line: argument parsing only."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fans.core import FansError
from fans.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fans`; return 0 done, 1 a failure told in one sentence, 2 wrong usage, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="fans", description="Which features were necessary and sufficient?")
    parser.add_argument("--version", action="version", version=f"fans {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser("demo", help="explain bundled real examples")
    demo.add_argument("--out", type=Path, default=Path("fans-demo"), help="folder for the picture and the page")
    chosen = parser.parse_args(arguments)
    try:
        from fans import demo as demonstration

        demonstration.run(chosen.out, Console(highlight=False))
    except KeyboardInterrupt as error:
        print(str(error) or "Interrupted.", file=sys.stderr)
        return 130
    except (FansError, OSError) as error:
        print(f"fans: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
