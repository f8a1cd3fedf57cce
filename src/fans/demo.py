"""The demo: train a model on real data, explain some predictions, show what was found."""

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fans.core import Explanation, extra, normal_quantile
from fans.explain import Explainer


def run(folder: Path, console: Console) -> None:
    """Explain four breast-cancer predictions and write a picture and a page to `folder`."""
    try:
        import pandas as pd
        from sklearn.datasets import load_breast_cancer
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise extra("scikit-learn and pandas", "tabular", "the demo") from None
    folder.mkdir(parents=True, exist_ok=True)
    data = load_breast_cancer(as_frame=True)
    diagnosis = pd.Series(data.target_names[data.target])
    train, test, train_y, test_y = train_test_split(
        data.data, diagnosis, test_size=0.3, random_state=0, stratify=diagnosis
    )
    model = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(train, train_y)
    console.print(
        f"A random forest on the Wisconsin breast-cancer data (569 tumours, 30 measurements): "
        f"{model.score(test, test_y):.1%} right on {len(test)} it has not seen.\n"
    )
    started = time.perf_counter()
    explainer = Explainer(model, train)
    cases = test.iloc[:4]
    explanation = explainer(cases, ids=[f"tumour {i}" for i in cases.index])
    seconds = time.perf_counter() - started
    for i in range(len(explanation)):
        _show(explanation, i, console)
    picture, page = folder / "table.png", explanation.to_html(folder / "table.html")
    explanation.plot(picture, columns=2)
    console.print(
        f"{len(explanation)} explanations in {seconds:.1f} s, {int(explanation.n_evaluations.sum()):,} model rows. "
        f"Picture: {picture}; page: {page}",
        soft_wrap=True,
    )


def _show(e: Explanation, i: int, console: Console, top: int = 6) -> None:
    """Print one explanation: the sentence and a table of the leading features."""
    table = Table(title=f"{e.ids[i]}: {e.target_name(i)} = {e.prediction[i]:.2f}", title_justify="left")
    for name, side in (
        ("feature", "left"),
        ("value", "right"),
        ("score", "right"),
        (f"{e.confidence:.0%} interval", "right"),
    ):
        table.add_column(name, justify="left" if side == "left" else "right")
    assert e.scores_se is not None
    z = normal_quantile(e.confidence)
    for f in e.ranked(i)[:top]:
        score, half = e.scores[i, f], z * e.scores_se[i, f]
        cells = (e.feature_names[f], e.value(i, int(f)), f"{score:.3f}", f"[{score - half:.3f}, {score + half:.3f}]")
        table.add_row(*cells, style="bold" if e.subset[i, f] else "dim")
    console.print(table)
    low, high = e.interval[i, 0]
    console.print(
        f"{e.sentences[i].replace('*', '')} PNS {e.pns[i]:.2f}, between {low:.2f} and {high:.2f}.\n", highlight=False
    )
