"""The command line: argument parsing only."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from fans.core import FansError
from fans.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fans`; return 0 done, 1 a failure told in one sentence, 2 wrong usage, 130 interrupted."""
    chosen = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = chosen.run
    try:
        run(chosen)
    except KeyboardInterrupt as error:
        print(str(error) or "Interrupted.", file=sys.stderr)
        return 130
    except (FansError, OSError) as error:
        print(f"fans: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fans", description="Which features were necessary and sufficient?")
    parser.add_argument("--version", action="version", version=f"fans {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser("demo", help="explain bundled real examples")
    demo.add_argument("--out", type=Path, default=Path("fans-demo"), help="folder for the picture and the page")
    demo.set_defaults(run=_demo)
    data = commands.add_parser("data", help="download datasets and check them; says where each file lies")
    data.add_argument("names", nargs="*", metavar="name", help="mnist, fashion_mnist, cifar10 (all)")
    data.set_defaults(run=_data)
    train = commands.add_parser("train", help="train a target model; goes on where it was stopped")
    train.add_argument("dataset", help="mnist, fashion_mnist or cifar10")
    train.add_argument("--out", type=Path, default=Path("checkpoints"), help="folder for the checkpoint (checkpoints)")
    train.add_argument("--seed", type=int, default=0, help="of initialisation, order and augmentation (0)")
    train.set_defaults(run=_train)
    return parser


def _demo(chosen: argparse.Namespace) -> None:
    from fans import demo

    demo.run(chosen.out, Console(highlight=False))


def _data(chosen: argparse.Namespace) -> None:
    from fans.data.images import ImageDataset, fetch_images

    try:
        for name in chosen.names or list(ImageDataset.registry):
            for path in fetch_images(name):
                print(f"{name}: {path}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted; the same command goes on with what came so far.") from None


def _train(chosen: argparse.Namespace) -> None:
    from fans.train import train

    train(chosen.dataset, chosen.out, seed=chosen.seed, tell=lambda line: print(line, flush=True), every=60.0)


if __name__ == "__main__":
    sys.exit(main())
