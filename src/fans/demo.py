"""The demo: models and real data that come along, some predictions explained, and what was found."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fans.datasets import load_graph, load_slice
from fans.errors import InputError, extra
from fans.explainer import Explainer
from fans.explanation import Explanation
from fans.networks import find_checkpoint, load
from fans.report.html import pages
from fans.report.sentences import direction_text, outcome, score_label, score_text, stability_text, unit_word


def run(folder: Path, console: Console) -> None:
    """Explain a table, some images, a photograph and a node of a graph; write a picture of each and one page."""
    started = time.perf_counter()
    found = {"table": _tumours(console), "image": _pictures("fashion_mnist", 4, console)}
    if _is_trained("cifar10"):
        found["photo"] = _pictures("cifar10", 1, console, every=8, effort="low")
    found["graph"] = _house(console)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.png" for name in found]
    for (_, explanation), path in zip(found.values(), written, strict=True):
        explanation.plot(path, columns=2)
    written.append(pages(dict(found.values()), folder / "demo.html"))
    n_rows = sum(int(explanation.n_evaluations.sum()) for _, explanation in found.values())
    console.print(
        f"{sum(len(explanation) for _, explanation in found.values())} explanations in "
        f"{time.perf_counter() - started:.1f} s, {n_rows:,} model rows. Look at: {', '.join(map(str, written))}",
        soft_wrap=True,
    )


def _tumours(console: Console) -> tuple[str, Explanation]:
    """Train a forest on the breast-cancer data and explain four of its predictions."""
    try:
        import pandas as pd
        from sklearn.datasets import load_breast_cancer
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise extra("scikit-learn and pandas", "tabular", "the demo") from None
    data = load_breast_cancer(as_frame=True)
    diagnosis = pd.Series(data.target_names[data.target])
    train, test, train_y, test_y = train_test_split(
        data.data, diagnosis, test_size=0.3, random_state=0, stratify=diagnosis
    )
    model = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(train, train_y)
    heading = (
        f"A random forest on the Wisconsin breast-cancer data (569 tumours, 30 measurements): "
        f"{model.score(test, test_y):.1%} right on {len(test)} it has not seen"
    )
    console.print(f"{heading}.\n")
    cases = test.iloc[:4]
    explanation = Explainer(model, train)(cases, ids=[f"tumour {i}" for i in cases.index])
    for i in range(len(explanation)):
        _show_features(explanation, i, console)
        _show_finding(explanation, i, console)
    return heading, explanation


def _is_trained(name: str) -> bool:
    try:
        find_checkpoint(name)
    except InputError:
        return False
    return True


def _pictures(name: str, n: int, console: Console, *, every: int = 1, **given: Any) -> tuple[str, Explanation]:
    """Explain the first test images of `n` different classes; every so many training images are the background."""
    model, card = load(name)
    train, test = load_slice(name, "train"), load_slice(name, "test")
    heading = f"A {type(model).__name__} on {name}: {card.accuracy:.1%} right on {card.n_test:,} images it has not seen"
    console.print(f"{heading}.\n")
    first = np.sort(np.unique(test.labels, return_index=True)[1])[:n]
    explainer = Explainer(model, train.tensor(slice(None, None, every)), target_names=test.classes, **given)
    explanation = explainer(test.tensor(first), ids=[f"image {i}" for i in first])
    for i in range(len(explanation)):
        console.print(f"[italic]{explanation.title(i)}: {outcome(explanation, i)}[/]")
        _show_finding(explanation, i, console)
    return heading, explanation


def _house(console: Console, node: int = 430) -> tuple[str, Explanation]:
    """Explain a node whose class is its place in a house of five nodes, and say how much of the house was found."""
    model, card = load("ba_community")
    graph = load_graph("ba_community")
    assert graph.truth is not None
    assert graph.motif is not None
    heading = (
        f"A graph network on BA-Community ({len(graph):,} nodes, {graph.edge_index.shape[1] // 2:,} edges): "
        f"{card.accuracy:.1%} right on {card.n_test} nodes it has not seen"
    )
    console.print(f"{heading}.\n")
    explanation = Explainer(model, graph, target_names=graph.classes)(node, ids=[f"node {node}"])
    inside = graph.truth & (graph.motif[graph.edge_index] == graph.motif[node]).all(0)
    house = {frozenset(edge) for edge in graph.edge_index[:, inside].T.tolist()}
    assert explanation.edges is not None
    joined = dict(zip(explanation.elements[0].tolist(), map(frozenset, explanation.edges[0].tolist()), strict=True))
    best = [joined[f] for f in explanation.ranked(0)[: len(house)].tolist()]
    console.print(
        f"[italic]{explanation.title(0)}: {outcome(explanation, 0)}[/] "
        f"Of the {len(house)} edges of its house, which made its class, {sum(edge in house for edge in best)} "
        f"are among the {len(house)} with the highest scores, of {explanation.present.sum()} in reach."
    )
    _show_finding(explanation, 0, console)
    return heading, explanation


def _show_features(e: Explanation, i: int, console: Console, top: int = 6) -> None:
    """Print a table of the leading features."""
    title = f"{e.title(i)}: {outcome(e, i)}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(unit_word(e, 1))
    for name in ("value", score_label(e), "if changed", "chosen in"):
        table.add_column(name, justify="right", no_wrap=True)
    for f in map(int, e.ranked(i)[:top]):
        words = (score_text(e, i, f), direction_text(e, i, f), stability_text(e, i, f))
        mark = "✓ " if e.subset[i, f] else "  "
        table.add_row(mark + e.feature_names[f], e.value(i, f), *words, style="bold" if e.subset[i, f] else "dim")
    console.print(table)


def _show_finding(e: Explanation, i: int, console: Console) -> None:
    """Print what was found, and the estimates."""
    console.print(f"{e.sentences[i].replace('*', '')}\n", highlight=False, markup=False)
