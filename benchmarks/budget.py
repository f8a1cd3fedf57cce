"""What model rows buy: IROF, insertion and the area between fidelity curves against the rows spent on the scores.

FANS, and the rivals whose rows can be chosen, with the settings of their rows in the tables. 100 reported Fashion-MNIST
images (our LeNet) and all reported nodes of BA-Community; target = predicted class. The figure has a second line for
FANS, where a row counts three, for its rows also go backward. Run with `python -m benchmarks.budget` (about fifteen
minutes; needs FANS_DATA); writes the record and `docs/images/budget.png`.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fans
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans.files import writing
from fans.metrics import metric
from fans.report.tables import entry
from fans.spaces import Image
from fans.studies import graphs, images, load

SEED = 0
FANS_ROWS = ((5, 8), (5, 16), (10, 16), (10, 32), (20, 32), (20, 64))
"""Steps, and rows of a step."""
ROWS = (40, 80, 160, 320, 640, 1280)
BACKWARD = 3
"""Rows forward that a row forward and backward is worth."""
TICKS = (50, 200, 1000, 4000)
IMAGES, NODES = "fashion_mnist", "ba_community"
N_IMAGES = 100
SAMPLING = {"LIME": "n_samples", "KernelSHAP": "n_samples", "RISE": "n_samples"}
SAMPLING |= {"Banzhaf, drawn as FANS's game (control)": "n_samples"}
STEPPING = {"IG": "n_steps", "GNNExplainer": "n_steps", "CF2": "n_steps", "Banzhaf (control)": "n_samples"}
"""Rows of the tables, and which of their settings says how many model rows an input takes."""
PANELS = {"IROF": "Fashion-MNIST", "insertion": "Fashion-MNIST", "area": "BA-Community"}

Figures = dict[str, list[dict[str, float]]]


def budgets(rivals: Mapping[str, str], table: str, dataset: str, n: int) -> list[tuple[str, dict[str, Any]]]:
    """Return who is tried, with which settings of an explainer: FANS and the rivals at every budget."""
    out: list[tuple[str, dict[str, Any]]] = [("FANS", {"n_steps": k, "n_rows": m}) for k, m in FANS_ROWS[:n]]
    for row in load(table).rows:
        if row.name in rivals:
            call = row.on(dataset)
            space = None if call["space"] is None else Image(**call["space"])
            usual = {"method": call["method"], "space": space} | dict(call["settings"])
            out += [(row.name, usual | {rivals[row.name]: rows}) for rows in ROWS[:n]]
    return out


def spent(explainer: fans.Explainer, before: int, n: int) -> float:
    """Return the model rows that an input took."""
    return (explainer.task.predict.n_rows - before) / n


def noted(rows: float, **values: Any) -> dict[str, float]:
    """Return the means of metrics over inputs, with their intervals, and the rows behind them."""
    out = {"rows": rows}
    for name, each in values.items():
        found = entry(np.array(each))
        out |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return out


def on_images(n_images: int, n_budgets: int) -> Figures:
    own = load("table1").dataset(IMAGES)
    given, at = images.subject(IMAGES, own.model, own.n_background), own.positions("reported", n_images)
    x, judges = given.images(at.start, at.stop), {"IROF": metric("irof"), "insertion": metric("insertion")}
    figures, cache = Figures(), dict[Any, Any]()
    for name, settings in budgets(SAMPLING, "table1", IMAGES, n_budgets):
        made = fans.Explainer(given.model, given.background, seed=SEED, **settings)
        before = made.task.predict.n_rows
        attribution = made.attribute(x, ids=list(at))
        rows = spent(made, before, len(x))
        found = fans.evaluate(attribution, judges, explainer=made, cache=cache)
        figures.setdefault(name, []).append(noted(rows, **found.values))
    return figures


def on_nodes(n_nodes: int | None, n_budgets: int) -> Figures:
    own = load("table2").dataset(NODES)
    given, at = graphs.subject(NODES, own.model), own.positions("reported", n_nodes)
    nodes = given.nodes[at.start : at.stop]
    target, figures = given.predicted[nodes].tolist(), Figures()
    for name, settings in budgets(STEPPING, "table2", NODES, n_budgets):
        made = fans.Explainer(given.model, given.graph, seed=SEED, **settings)
        before = made.task.predict.n_rows
        attribution = made.attribute(nodes, target)
        rows = spent(made, before, len(nodes))
        found = fans.evaluate(attribution, {"area": metric("fidelity_gap")}, explainer=made)
        figures.setdefault(name, []).append(noted(rows, **found.values))
    return figures


def draw(figures: Mapping[str, Figures], path: Path) -> None:
    """Draw a panel for each metric: its mean against rows, with 95 % intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.9), layout="constrained")
    colours: dict[str, Any] = {"FANS": "#1f77b4"}
    others = ["#d95f02", "#7570b3", "#66a61e", "#a6761d"]
    for axis, (name, dataset) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        lines = figures["nodes" if name == "area" else "images"]
        colours |= dict(zip([who for who in lines if who != "FANS"], others, strict=False))
        for who, points in lines.items():
            rows, value, low, high = (
                np.array([point[k] for point in points]) for k in ("rows", name, f"{name}_low", f"{name}_high")
            )
            wide = 2.4 if who == "FANS" else 1.3
            axis.plot(rows, value, color=colours[who], lw=wide, marker="o", ms=3.5, label=who.replace(" (control)", ""))
            axis.fill_between(rows, low, high, color=colours[who], alpha=0.12, lw=0)
            if who == "FANS" and name != "area":
                label = f"FANS, a row counted {BACKWARD} times"
                axis.plot(BACKWARD * rows, value, color=colours[who], lw=1.2, ls=":", label=label)
        axis.set_xscale("log")
        axis.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
        axis.minorticks_off()
        axis.set_xlabel("model rows an input")
        axis.set_title(f"{name}, {dataset}", fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7, frameon=False, loc="lower right", ncols=2 if name == "area" else 1)
        if name == "area":
            axis.set_ylim(bottom=0)
    with writing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "budget")
    quick = arguments.quick
    n_budgets = 2 if quick else len(ROWS)
    figures = {
        "images": on_images(2 if quick else N_IMAGES, n_budgets),
        "nodes": on_nodes(2 if quick else None, n_budgets),
    }
    for part, names in (("images", ("IROF", "insertion")), ("nodes", ("area",))):
        lines = [
            (who, f"{point['rows']:.0f}", *(f"{point[k]:.3f}" for k in names))
            for who, points in figures[part].items()
            for point in points
        ]
        print_table(part, ("method", "rows", *names), lines)
    write_record(arguments.out, {"seed": SEED, "images": N_IMAGES}, figures)
    folder = arguments.out.parent if quick else Path(__file__).parents[1] / "docs" / "images"
    draw(figures, folder / "budget.png")


if __name__ == "__main__":
    main()
