"""The explorer as a reader feels it: a click to new figures, a slider, the gallery of 100,000 inputs, its memory.

In a browser (headless Chromium, Playwright), on the demo's table model and its LeNet. A click is timed in the page,
from the event to the frame that shows the new figures; so is a slider. Run with `python -m benchmarks.serve`.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fans
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans.datasets import load_slice
from fans.networks import load
from fans.serve import InMemory, serve

GOALS = {"click": 0.3, "slider": 0.05, "gallery": 1.0, "memory": 500.0}
"""Seconds; megabytes."""

N_RECORDS, N_FEATURES = 100_000, 30

CLICK = """(f) => new Promise((done) => {
  const about = document.querySelector(".about"), started = performance.now();
  const seen = new MutationObserver(() => {
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
  });
  seen.observe(about, { childList: true, characterData: true, subtree: true });
  document.querySelector(`[role=option][data-f="${f}"]`).click();
})"""

SLIDE = """([name, value]) => new Promise((done) => {
  const slider = document.getElementById(name), started = performance.now();
  slider.value = value;
  slider.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""


def tumours() -> tuple[fans.Explainer, fans.Explanation]:
    """Return the demo's forest on the breast-cancer data, and one of its predictions explained."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer(as_frame=True)
    train, test, train_y, _ = train_test_split(
        data.data, data.target, test_size=0.3, random_state=0, stratify=data.target
    )
    model = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(train, train_y)
    explainer = fans.Explainer(model, train, target_names=list(data.target_names))
    return explainer, explainer(test.iloc[:1])


def clothes() -> tuple[fans.Explainer, fans.Explanation]:
    """Return LeNet on Fashion-MNIST as the demo has it, and one of its predictions explained."""
    model, _ = load("fashion_mnist")
    train, test = load_slice("fashion_mnist", "train"), load_slice("fashion_mnist", "test")
    explainer = fans.Explainer(model, train.tensor(slice(None)), target_names=test.classes)
    return explainer, explainer(test.tensor(np.array([0])))


def feel(browser: Any, subject: tuple[fans.Explainer, fans.Explanation], n: int) -> dict[str, list[float]]:
    """Return the seconds of `n` clicks and of `n` moves of each slider."""
    explainer, e = subject
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(f"{server.url}#/input/0")
        tab.wait_for_selector("svg.curve")
        curve = explainer.curve(e)
        last = curve.order[0][curve.order[0] >= 0][::-1]
        listed = [int(f) for f in last if tab.locator(f"[role=option][data-f='{f}']").count()]
        features = [f for f in listed if not e.subset[0, f]][:n]
        clicks = [tab.evaluate(CLICK, f) / 1000 for f in features]  # each makes a subset that nobody asked of before
        moves = []
        for k in range(n):
            moves.append(tab.evaluate(SLIDE, ["size", k % len(curve.sizes[0])]) / 1000)
            moves.append(tab.evaluate(SLIDE, ["tolerance", k % curve.tolerances.shape[1]]) / 1000)
        tab.close()
    return {"click": clicks, "slider": moves}


def many(n: int) -> fans.Explanation:
    """Return so many made-up explanations of rows of 30 columns."""
    draws = np.random.default_rng(0)
    scores = draws.random((n, N_FEATURES))
    names = tuple(f"column {k}" for k in range(N_FEATURES))
    shares = draws.random((3, n))
    given: dict[str, Any] = dict.fromkeys(("scores_se", "history"))
    given |= dict.fromkeys(("direction", "stability"), np.full(scores.shape, np.nan))
    given |= dict(zip(("pns", "changes", "holds"), shares, strict=True)) | {"pn": shares[0], "ps": shares[0]}
    given |= {"interval": np.full((n, 3, 2), np.nan), "share_interval": np.full((n, 2, 2), np.nan)}
    given |= dict.fromkeys(("radius", "tolerance"), np.full(n, 0.1)) | {"ess": np.full((n, 2), 20.0)}
    return fans.Explanation(
        **given,
        scores=scores,
        subset=scores > 0.8,
        target=draws.integers(0, 2, n),
        prediction=draws.random(n),
        ids=tuple(range(n)),
        feature_names=names,
        target_names=("no", "yes"),
        method="fans",
        settings={},
        seed=0,
        seconds=0.0,
        evaluations={},
        kind="probability",
        modality="table",
        inputs=scores,
        elements=np.arange(N_FEATURES),
        element_names=names,
        categories={},
        confidence=0.95,
        change="target",
        notes=("",) * n,
    )


@contextmanager
def server_of(path: Path) -> Iterator[tuple[str, int]]:
    """Run `fans serve` in a process of its own; yield its address and its number."""
    command = [sys.executable, "-m", "fans.cli", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            yield line.split()[-1], process.pid
        finally:
            process.terminate()


def highest_memory(pid: int) -> float:
    """Return the most megabytes that a process has held, as the system counts (Linux)."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def browse(browser: Any, n: int, repeats: int) -> dict[str, Any]:
    """Return the seconds to the first page of a gallery of so many inputs, and what the server's memory comes to."""
    with tempfile.TemporaryDirectory() as folder:
        path = many(n).save(Path(folder) / "many.safetensors")
        with server_of(path) as (address, pid):
            seconds = []
            for _ in range(repeats):
                tab = browser.new_page()
                started = time.perf_counter()
                tab.goto(address)
                tab.wait_for_selector(".card")
                seconds.append(time.perf_counter() - started)
                for page in ("#/?sort=pns&down=1&page=7", "#/all", "#/input/99"):
                    tab.goto(address + page)
                    tab.wait_for_selector("main:not([aria-busy]) h1")
                tab.close()
            return {"gallery": seconds, "memory": [highest_memory(pid)]}


def main() -> None:
    """Measure everything, print it, and write the record."""
    arguments = parse_arguments("What the explorer's readers wait for.", "serve")
    quick: bool = arguments.quick
    warnings.simplefilter("ignore", fans.FansWarning)
    torch.set_num_threads(1)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Expected Chromium, got none; install it with: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    n = 5 if quick else 20
    found: dict[str, dict[str, list[float]]] = {}
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-quic"])
        found["table"] = feel(browser, tumours(), n)
        found["LeNet"] = feel(browser, clothes(), n)
        found["gallery"] = browse(browser, 1000 if quick else N_RECORDS, 2 if quick else 5)
        browser.close()
    figures = {
        part: {
            what: {"median": statistics.median(values), "worst": max(values), "n": len(values), "goal": GOALS[what]}
            for what, values in some.items()
        }
        for part, some in found.items()
    }
    rows = [
        (f"{part}: {what}", *(f"{one[key]:.3f}" for key in ("median", "worst", "goal")), str(one["n"]))
        for part, some in figures.items()
        for what, one in some.items()
    ]
    print_table("Seconds (memory: megabytes)", ("", "median", "worst", "goal", "n"), rows)
    settings = {"quick": quick, "n_records": 1000 if quick else N_RECORDS, "n_features": N_FEATURES}
    write_record(arguments.out, settings, figures)


if __name__ == "__main__":
    main()
