"""The command line: argument parsing only."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fans.completion import SHELLS, script
from fans.errors import FansError, InputError, MissingExtra, ModelError, choose
from fans.memory import keep_freed_memory
from fans.version import __version__

if TYPE_CHECKING:
    from fans.runs import Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fans`; return 0 done, 1 a failure told in one sentence, 2 wrong usage, 130 interrupted."""
    chosen = _parser().parse_args(arguments)
    keep_freed_memory(children=True)
    run: Callable[[argparse.Namespace], None] = chosen.run
    try:
        run(chosen)
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        print(str(error) or "Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever was reading, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
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
    data.add_argument("names", nargs="*", metavar="name", help="see: fans list datasets (all)")
    data.set_defaults(run=_data)
    train = commands.add_parser("train", help="train a target model; goes on where it was stopped")
    train.add_argument("dataset", help="see: fans list datasets")
    train.add_argument("--out", type=Path, default=Path("checkpoints"), help="folder for the checkpoint (checkpoints)")
    train.add_argument("--seed", type=int, default=0, help="of initialisation, order and augmentation (0)")
    train.add_argument("--split", help="of a citation graph's nodes: planetoid or larger (larger)")
    train.set_defaults(run=_train)
    run = commands.add_parser("run", help="run an experiment of the paper; goes on where it was stopped")
    run.add_argument("experiment", help="see: fans list experiments; paper: all; or a file of your own, .yaml or .py")
    run.add_argument("--out", type=Path, help="folder of the run (runs/EXPERIMENT)")
    run.add_argument("--n", type=int, help="inputs of every dataset (the experiment's own)")
    run.add_argument("--only", nargs="+", metavar="DATASET", help="some of the datasets")
    run.add_argument("--rows", nargs="+", metavar="ROW", help="some of the rows")
    size = run.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const="quick", help="a few inputs of everything")
    size.add_argument("--full", action="store_const", dest="size", const="full", help="as many inputs as the paper")
    run.set_defaults(size="default")
    run.add_argument("--tune", action="store_true", help="the search for the rivals' settings instead")
    run.add_argument("--workers", type=int, default=1, help="processes (1)")
    run.add_argument("--dry-run", action="store_true", help="show the plan and its cost in model evaluations")
    run.set_defaults(run=_run)
    report = commands.add_parser(
        "report", help="print runs' results beside the paper's; write them as files and one HTML page"
    )
    report.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    report.add_argument(
        "--html", type=Path, metavar="FILE", help="the page (report.html in the run's folder; of several, paper.html)"
    )
    report.add_argument(
        "--verify", type=int, metavar="K", help="compute K random cells of each again; fails on a difference"
    )
    report.add_argument("--against", metavar="ROW", help="also print this row less each other, paired by input")
    report.add_argument(
        "--study",
        metavar="FILE",
        help="the file that was run, where it is yours: runs name no file to be read or executed",
    )
    report.set_defaults(run=_report)
    _add_explain(commands)
    _add_serve(commands)
    listing = commands.add_parser("list", help="what there is")
    listing.add_argument("what", nargs="?", choices=("methods", "metrics", "datasets", "experiments"))
    listing.set_defaults(run=_list)
    completion = commands.add_parser("completion", help="print what makes a shell complete these commands")
    completion.add_argument("shell", choices=SHELLS, help="load it with: source <(fans completion bash)")
    completion.set_defaults(run=_complete)
    return parser


def _add_explain(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    own = commands.add_parser("explain", help="explain your own model on your own data; goes on where it was stopped")
    models = ".skops, .json or .ubj (XGBoost), .txt (LightGBM), .onnx, .pt2, .pt (TorchScript)"
    own.add_argument("model", metavar="MODEL", help=f"a file: {models}; or module:object")
    data = "a table (.csv, .tsv, .parquet), a folder of .png and .jpg, texts (.txt, one a line), a graph (.npz)"
    own.add_argument("data", type=Path, metavar="DATA", help=data)
    own.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder of the run and its results")
    own.add_argument("--limit", type=int, metavar="N", help="only the first N inputs (all)")
    own.add_argument("--target", metavar="CLASS", help="the class explained, by name or number (the predicted one)")
    own.add_argument("--background", type=Path, metavar="FILE", help="data of the same kind (drawn from DATA)")
    own.add_argument("--method", default="fans", help="see: fans list methods (fans)")
    own.add_argument("--effort", choices=("low", "normal", "high"), default="normal", help="what an input may cost")
    own.add_argument("--seed", type=int, default=0, help="of all draws (0)")
    own.add_argument("--classes", nargs="+", default=[], metavar="NAME", help="names of the model's outputs, in order")
    own.add_argument("--task", choices=("classification", "regression"), help="what the outputs are (guessed)")
    formats, usual = ("csv", "html", "json", "parquet"), ["csv", "html"]
    own.add_argument("--format", nargs="+", choices=formats, default=usual, help="of the results (csv html)")
    own.add_argument("--ids", metavar="COLUMN", help="the column that names the rows (their numbers)")
    own.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns that are no features")
    own.add_argument("--text-column", metavar="COLUMN", help="the column that holds the texts to explain")
    own.add_argument("--size", type=_size, metavar="HxW", help="height and width that pictures are brought to")
    own.add_argument("--mean", type=float, nargs="+", default=[], help="of pixels from 0 to 1, a channel each (0)")
    own.add_argument("--std", type=float, nargs="+", default=[], help="likewise (1)")
    own.add_argument("--curves", action="store_true", help="keep PNS by size and tolerance too, to show without MODEL")
    own.add_argument("--workers", type=int, default=1, help="processes (1)")
    own.add_argument("--max-batch", type=int, metavar="ROWS", help="most rows that the model sees at a time")
    trust = "a model file to load though that runs what is in it (pickles)"
    own.add_argument("--trust", type=Path, action="append", default=[], metavar="FILE", help=trust)
    own.set_defaults(run=_explain)


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.lower().partition("x")
    if not (height.isdecimal() and width.isdecimal() and 0 < int(height) <= 4096 and 0 < int(width) <= 4096):
        raise argparse.ArgumentTypeError(f"Expected HxW from 1x1 to 4096x4096, e.g. 224x224, got {text!r}")
    return int(height), int(width)


def _explain(chosen: argparse.Namespace) -> None:
    from fans import own

    pictures = (chosen.size, tuple(chosen.mean), tuple(chosen.std))
    reading = own.Reading(chosen.ids, tuple(chosen.drop), chosen.text_column, *pictures)
    names = ("limit", "target", "background", "method", "effort", "seed", "max_batch", "task")
    given = {name: getattr(chosen, name) for name in names}
    classes, trust = tuple(chosen.classes), tuple(chosen.trust)
    asked = own.Asked(chosen.model, chosen.data, **given, classes=classes, reading=reading, trust=trust)
    how = {"formats": chosen.format, "workers": chosen.workers, "curves": chosen.curves}
    try:
        own.explain(asked, chosen.out, **how, tell=_tell)
    except (InputError, ModelError, MissingExtra) as error:
        print(f"fans: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _demo(chosen: argparse.Namespace) -> None:
    from fans import demo

    demo.run(chosen.out, Console(highlight=False))


def _data(chosen: argparse.Namespace) -> None:
    from fans.datasets.graphs import GraphDataset, fetch_graph
    from fans.datasets.images import ImageDataset, fetch_images

    known = [*GraphDataset.registry, *ImageDataset.registry]
    try:
        for name in chosen.names or known:
            fetch = fetch_graph if choose("the dataset", name, known) in GraphDataset.registry else fetch_images
            for path in fetch(name):
                print(f"{name}: {path}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted; the same command goes on with what came so far.") from None


def _tell(line: str) -> None:
    print(line, flush=True)


def _train(chosen: argparse.Namespace) -> None:
    from fans.networks.train import RECIPES, train
    from fans.networks.train_graph import GRAPH_RECIPES, train_graph

    choose("the dataset", chosen.dataset, [*GRAPH_RECIPES, *RECIPES])
    if chosen.dataset in GRAPH_RECIPES:
        train_graph(chosen.dataset, chosen.out, seed=chosen.seed, split=chosen.split, tell=_tell)
    elif chosen.split is not None:
        raise InputError(f"Expected --split with a graph, got it with {chosen.dataset!r}, a dataset of images")
    else:
        train(chosen.dataset, chosen.out, seed=chosen.seed, tell=_tell, every=60.0)


def _run(chosen: argparse.Namespace) -> None:
    from fans import runs
    from fans.studies import Asked, find_study, results, suites

    if chosen.experiment in suites.SUITES:
        _run_suite(chosen)
        return
    study = find_study(chosen.experiment)
    folder = chosen.out or Path("runs") / (Path(chosen.experiment).stem + ("_tuning" if chosen.tune else ""))
    asked = Asked(chosen.n, chosen.only, chosen.rows, chosen.tune, chosen.size)
    run = results.start(study, folder, asked, dry=chosen.dry_run)
    if chosen.dry_run:
        print(runs.describe(run, chosen.workers))
        return
    run.work(study.do, workers=chosen.workers, tell=_tell, every=30.0)
    done = results.opened(folder)
    _show(done)
    print(f"One page: {results.write_page([done])}")


def _run_suite(chosen: argparse.Namespace) -> None:
    from fans.studies import Asked, suites

    given = [name for name in ("n", "only", "rows", "tune") if getattr(chosen, name)]
    if given:
        raise InputError(
            f"Expected `fans run {chosen.experiment}` with --quick, --full or neither, got --{given[0]}; "
            "run one of its studies alone for that"
        )
    folder, asked = chosen.out or Path("runs") / chosen.experiment, Asked(size=chosen.size)
    suites.run(chosen.experiment, asked, folder, workers=chosen.workers, tell=_tell, dry=chosen.dry_run)


def _report(chosen: argparse.Namespace) -> None:
    from fans.report.tables import text
    from fans.studies import find_study, results

    study = find_study(chosen.study) if chosen.study is not None else None
    opened = [results.opened(folder) for folder in chosen.folders]
    for run in opened:
        _show(run)
        if chosen.against is not None:
            _tell(text(results.against(run, chosen.against)))
        if chosen.verify is not None:
            for line in results.verify(run, chosen.verify, study=study):
                _tell(line)
    print(f"One page: {results.write_page(opened, chosen.html)}")


def _show(run: "Run") -> None:
    from fans.studies import results

    results.report(run, _tell)
    print(f"Written to {run.folder}")


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = commands.add_parser(
        "serve", help="show a run's inputs on a local page, on which features are clicked in and out"
    )
    serve.add_argument("run_folder", type=Path, metavar="RUN", help="folder of fans explain, or a saved explanation")
    serve.add_argument("--port", type=int, help="8765, or the next free one")
    serve.add_argument("--host", help="another address than this machine's own; a token is needed then")
    serve.add_argument("--token", help="what a reader has to show (made up with --host)")
    serve.add_argument("--model", metavar="M", help="the model, where the run's own may not be loaded: module:function")
    serve.add_argument("--trust", type=Path, metavar="F", help="a file that may execute code as it is loaded")
    serve.set_defaults(run=_serve)


def _serve(chosen: argparse.Namespace) -> None:
    from fans.serve import serve
    from fans.serve.running import more_files
    from fans.serve.source import opened

    more_files()
    source = opened(chosen.run_folder, model=chosen.model, trust=chosen.trust)
    serve(source, host=chosen.host, port=chosen.port, token=chosen.token, wait=True)


def _list(chosen: argparse.Namespace) -> None:
    from fans.listing import describe

    print(describe(chosen.what))


def _complete(chosen: argparse.Namespace) -> None:
    print(script(_parser(), chosen.shell), end="")


if __name__ == "__main__":
    sys.exit(main())
