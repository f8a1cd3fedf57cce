"""What the explorer draws of each modality, against the explanations it is of."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from fans.explanation import Explanation
from fans.modalities.present import Presenter
from tests.report.made import LABELS, SUBSET, graph_of, small_images, table
from tests.serve import subjects


def plain(value: Any) -> Any:
    """What comes through JSON."""
    return json.loads(json.dumps(value))


def pixels_of(scene: dict[str, Any]) -> Any:
    flat = np.frombuffer(base64.b64decode(scene["features"]), dtype="<i4")
    return flat.reshape(scene["height"], scene["width"])


@pytest.mark.parametrize("channels", ["first", "last", "none"])
def test_an_images_pixels_know_their_features(channels):
    e = small_images(2, channels)
    for i in range(2):
        scene = plain(e.presenter.scene_data(e, i))
        assert scene["kind"] == "image"
        assert np.array_equal(pixels_of(scene), LABELS[i])
        assert scene["picture"].startswith("data:image/png;base64,")
        assert plain(e.presenter.thumbnail(e, i))["kind"] == "picture"
    assert SUBSET.shape == e.subset.shape


def test_large_images_are_thinned_and_thumbnails_are_small():
    labels = np.arange(1200)[:, None] // 600 * 2 + np.arange(900) // 450
    e = small_images(1)
    image = np.zeros((1, 1200, 900))
    subset, scores = np.array([[True, False, False, False]]), np.ones((1, 4))
    e = Explanation(
        **{
            **vars(e),
            **dict.fromkeys(("scores", "direction", "stability"), scores),
            "subset": subset,
            "feature_names": tuple("abcd"),
            "inputs": image,
            "elements": labels,
        }
    )
    scene = e.presenter.scene_data(e, 0)
    assert (scene["height"], scene["width"]) == (400, 300)
    assert np.array_equal(pixels_of(scene), labels[::3, ::3])
    assert len(e.presenter.thumbnail(e, 0)["picture"]) < 3000


def test_a_trial_of_an_image_keeps_the_images_colours():
    e = small_images(1)
    same = e.presenter.trial_data(e, e.inputs[0], e.inputs[0], None)
    other = e.presenter.trial_data(e, e.inputs[0], e.inputs[0] * 0.5, None)
    assert same["kind"] == other["kind"] == "picture"
    assert same != other


def test_a_graphs_edges_join_its_nodes():
    edges = [(0, 1), (1, 2), (2, 0), (2, 3)]
    e = graph_of(edges, [0.5, 0.2, 0.1, 0.4], [True, False, False, True], node=2)
    scene = plain(e.presenter.scene_data(e, 0))
    joined = {each["f"]: {each["u"], each["v"]} for each in scene["edges"]}
    assert joined == {k: set(edge) for k, edge in enumerate(edges)}
    assert not any(each["arrow"] for each in scene["edges"])  # they go both ways
    assert [node["id"] for node in scene["nodes"] if node["explained"]] == [2]
    places = np.array([[node["x"], node["y"]] for node in scene["nodes"]])
    assert places.min() == 0
    assert places.max() == 1
    assert {each["f"]: each["share"] for each in scene["edges"]}[3] == 0.8


def test_a_trial_of_a_graph_tells_which_edges_are_gone():
    e = graph_of([(0, 1), (1, 2), (2, 0)], [0.5, 0.2, 0.1], [True, False, False])
    after = np.array([1.0, 0, 0, 1, 0, 0])  # both directions of the last two edges are out
    told = e.presenter.trial_data(e, np.ones(6), after, None)
    assert told == {"kind": "gone", "names": ["1 - 2", "0 - 2"], "n": 2, "left": 1}
    nothing = e.presenter.trial_data(e, np.ones(6), np.ones(6), None)
    assert (nothing["n"], nothing["left"]) == (0, 3)


def test_a_texts_runs_are_the_text():
    _, e, _ = subjects.text()
    scene = plain(e.presenter.scene_data(e, 0))
    assert "".join(run["text"] for run in scene["runs"]) == "a good film with a really good end"
    assert [run["text"] for run in scene["runs"] if run["f"] == 1] == ["good"]
    assert e.presenter.thumbnail(e, 1)["text"] == "a bad film, and a long one"
    told = e.presenter.trial_data(e, e.inputs[0], e.inputs[0], "a \x1b[31mfilm")
    assert told == {"kind": "text", "text": "a \ufffd[31mfilm"}


def test_a_series_has_its_values_and_windows_at_their_shares_of_time():
    _, e, _ = subjects.series()
    scene = plain(e.presenter.scene_data(e, 0))
    assert [panel["name"] for panel in scene["panels"]] == ["pulse", "breath"]
    for channel, panel in enumerate(scene["panels"]):
        assert panel["values"] == pytest.approx(e.inputs[0, channel], rel=1e-3)
        assert [window["f"] for window in panel["windows"]] == list(range(6 * channel, 6 * channel + 6))
        assert [window["start"] for window in panel["windows"]] == pytest.approx(np.arange(6) / 6, abs=1e-6)
        assert panel["times"] == pytest.approx((np.arange(60) + 0.5) / 60, abs=1e-6)
    told = plain(e.presenter.trial_data(e, e.inputs[0], e.inputs[0] + 100, None))
    assert told["panels"][0]["high"] > 90
    assert told["panels"][0]["low"] == pytest.approx(scene["panels"][0]["low"])


def test_rows_are_lists_and_trials_tell_what_moved():
    e = table(1)
    assert e.presenter.scene_data(e, 0) == {"kind": "list"}
    after = e.inputs[0] + np.array([0.0, 1.0, np.nan])
    told = e.presenter.trial_data(e, e.inputs[0], after, None)
    assert told == {
        "kind": "moves",
        "moves": [{"name": "x2", "from": "0.5", "to": "1.5"}, {"name": "x3", "from": "1", "to": "missing"}],
        "more": 0,
    }


def test_a_modality_of_ones_own_is_a_list_of_named_features():
    e = table(2)
    plainest = Presenter()
    assert plainest.scene_data(e, 1) == {"kind": "list"}
    assert plainest.thumbnail(e, 1) == {"kind": "none"}
    told = plainest.trial_data(e[0], e.inputs[0], e.inputs[0] + 1, None)
    assert [move["name"] for move in told["moves"]] == ["x2", "x1", "x3"]
