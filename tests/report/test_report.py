"""Sentences, pages, frames and figures say what the estimates say."""

import base64
import io
import math
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

import fans
from fans.report import images
from fans.report.html import pages
from fans.report.sentences import join_names, number, percent

BACKGROUND = np.random.default_rng(0).normal(size=(150, 3))


def rule(rows: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-3 * (rows[:, 0] - rows[:, 1])))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def e() -> fans.Explanation:
    return fans.Explainer(rule, BACKGROUND)(BACKGROUND[:4])


def said(e: fans.Explanation, **changes) -> str:
    """The sentence after some estimates were replaced."""
    arrays: dict[str, Any] = {k: np.asarray(v) for k, v in changes.items()}
    return replace(e[0], **arrays).sentences[0]


def test_the_sentence_carries_the_estimates(e):
    text = said(e, subset=[[True, True, False]], ps=[0.914], pn=[0.876], tolerance=[0.021], scores=[[2.0, 3.0, 0]])
    assert text == (
        f"Perturbing *x2* and *x1* moves P({e.target[0]}) by more than 0.021 in 91 % of trials; "
        "perturbing everything else leaves it within that in 88 %."
    )


@pytest.mark.parametrize("ps", [0.0, 0.001, 0.5, 0.996, 1.0, math.nan])
@pytest.mark.parametrize("pn", [0.0, 0.004, 0.5, 0.999, 1.0, math.nan])
def test_the_sentence_never_contradicts_the_estimates(e, ps, pn):
    text = said(e, subset=[[True, False, False]], ps=[ps], pn=[pn])
    shares = [int(n) / 100 for n in re.findall(r"(\d+) %", text)]
    expected = [p for p in (ps, pn) if not math.isnan(p)]
    assert len(shares) == len(expected)
    for share, p in zip(shares, expected, strict=True):
        assert share == pytest.approx(p, abs=0.0101)
        assert (share in (0, 1)) == (p in (0, 1))  # certainty is claimed only where it was found
    assert ("leaves it" in text) == (not math.isnan(pn))


def test_the_sentence_for_everything_and_for_other_changes(e):
    assert "only *x" in said(e, subset=[[True, True, True]], ps=[math.nan], pn=[1.0])
    flipped = replace(e[0], change="label").sentences[0]
    assert "flips the predicted class" in flipped
    assert "moves the prediction by" in replace(e[0], change="l2").sentences[0]
    assert f"lowers {e[0].target_name(0)} by more than" in replace(e[0], change="fall").sentences[0]
    assert "by more than" not in said(e, tolerance=[0.0])


def test_small_words():
    assert [percent(p) for p in (0, 0.0001, 0.994, 0.9999, 1)] == ["0 %", "1 %", "99 %", "99 %", "100 %"]
    assert join_names(["a"]) == "*a*"
    assert join_names(list("abcdefgh")) == "*a*, *b*, *c*, *d*, *e* and 3 more"
    assert [number(v) for v in (0.0213, 0.00002, 3.14159, 12345.6)] == ["0.021", "2.0e-05", "3.1", "12,346"]


def test_the_page_has_every_input_and_escapes_names(e, tmp_path):
    named = replace(e, feature_names=("<b>", "x2", "x3"))
    text = named.to_html(tmp_path / "page.html").read_text()
    assert text.count("<table>") == 4
    assert "&lt;b&gt;" in text
    assert "<b></td>" not in text
    assert f"PNS {e.pns[0]:.2f}" in text
    assert "src=" not in text
    assert "http" not in text
    assert e[0]._repr_html_().count("<table>") == 1


def test_names_may_have_asterisks_and_dollar_signs(e, tmp_path):
    named = replace(e, feature_names=("a*b*", "profit_$_vs_$", "x3"), subset=np.ones_like(e.subset))
    text = named.to_html(tmp_path / "page.html").read_text()
    assert "<em>a*b*</em>" in text
    assert "<em>profit_$_vs_$</em>" in text
    figure = named.plot(tmp_path / "e.png")
    assert r"profit_\$_vs_\$" in "".join(t.get_text() for t in figure.axes[0].get_yticklabels())


def test_the_frame_has_a_row_for_each_input_and_feature(e):
    frame = e.to_frame()
    assert len(frame) == 12
    second = frame[frame["id"] == 1].set_index("feature")
    assert second["score"].tolist() == e.scores[1].tolist()
    assert second["chosen"].tolist() == e.subset[1].tolist()
    assert (second["pns"] == e.pns[1]).all()
    assert float(second.loc["x1", "value"]) == pytest.approx(BACKGROUND[1, 0], rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_shap_takes_the_scores(e):
    shap = pytest.importorskip("shap")
    found = e.to_shap()
    assert isinstance(found, shap.Explanation)
    assert np.array_equal(found.values, e.scores)
    assert found.feature_names == ["x1", "x2", "x3"]


def test_the_picture_shows_the_leading_features_and_colours_the_chosen(e, tmp_path):
    figure = e.plot(tmp_path / "e.png", top=2, columns=2)
    assert (tmp_path / "e.png").stat().st_size > 10_000
    panels = [axis for axis in figure.axes if axis.axison]
    assert len(panels) == 4
    labels = [t.get_text().split(" = ")[0] for t in panels[0].get_yticklabels()]
    assert labels == [e.feature_names[f] for f in e.ranked(0)[:2]]
    widths = [bar.get_width() for bar in panels[0].patches]
    assert widths == pytest.approx([e.scores[0, f] for f in e.ranked(0)[:2]])
    colours = {bar.get_facecolor() for bar in panels[0].patches}
    assert len(colours) == len({bool(e.subset[0, f]) for f in e.ranked(0)[:2]})


# Images.

LABELS = np.array([[[0, 0, 1], [0, 2, 1]], [[0, 1, 1], [0, 1, 1]]])
"""Two images of 2 x 3 pixels: the first has three superpixels, the second two of them."""

SCORES = np.array([[0.3, -0.1, 0.2], [0.5, -1.0, 9.0]])
SUBSET = np.array([[True, False, True], [False, True, False]])


def made(n: int = 2, channels: str = "first", **changes: Any) -> fans.Explanation:
    """An explanation made up by hand, of `n` images (the two above in turn) with the channels where asked."""
    which = np.arange(n) % 2
    plane = np.array([[0.0, 0.1, 0.2], [0.3, 0.4, 1.0]])
    inputs, elements = np.stack([plane] * n), LABELS[which]
    if channels != "none":
        axis = 1 if channels == "first" else 3
        inputs = np.stack([inputs, inputs / 2, inputs / 4], axis)
        elements = np.stack([elements] * 3, axis)
    given: dict[str, Any] = {
        "scores": SCORES[which],
        "scores_se": None,
        "history": None,
        "subset": SUBSET[which],
        "pns": np.full(n, 0.25),
        "pn": np.full(n, 0.74),
        "ps": np.full(n, 0.61),
        "interval": np.tile([[0.2, 0.3], [0.7, 0.8], [0.5, 0.7]], (n, 1, 1)),
        "ess": np.full((n, 2), 20.0),
        "radius": np.ones(n),
        "tolerance": np.full(n, 0.12),
        "target": which,
        "prediction": np.full(n, 0.9),
        "ids": tuple(range(n)),
        "feature_names": ("superpixel 1", "superpixel 2", "superpixel 3"),
        "target_names": ("Sneaker", "<Bag>"),
        "method": "fans",
        "settings": {},
        "seed": 0,
        "seconds": 1.0,
        "evaluations": {},
        "confidence": 0.95,
        "kind": "probability",
        "change": "target",
        "modality": "image",
        "inputs": inputs,
        "elements": elements,
        "element_names": (),
        "categories": {},
        "notes": ("",) * n,
    }
    return fans.Explanation(**given | changes)


LAYOUTS = pytest.mark.parametrize("channels", ["first", "last", "none"])


def edge_set(edges: np.ndarray) -> set[frozenset[tuple[float, float]]]:
    found = [frozenset(tuple(point) for point in edge) for edge in edges.tolist()]
    assert len(set(found)) == len(found)
    return set(found)


def edge(x0: float, y0: float, x1: float, y1: float) -> frozenset[tuple[float, float]]:
    return frozenset({(x0, y0), (x1, y1)})


def test_the_outline_is_every_edge_between_in_and_out_and_no_other():
    # . # .      the upper pixel touches the end of the image, and the lower left one two of its sides
    # # . .
    found = edge_set(images.outline(np.array([[False, True, False], [True, False, False]])))
    assert found == {
        *(edge(0.5, -0.5, 1.5, -0.5), edge(0.5, 0.5, 1.5, 0.5), edge(0.5, -0.5, 0.5, 0.5), edge(1.5, -0.5, 1.5, 0.5)),
        *(edge(-0.5, 0.5, 0.5, 0.5), edge(-0.5, 1.5, 0.5, 1.5), edge(-0.5, 0.5, -0.5, 1.5), edge(0.5, 0.5, 0.5, 1.5)),
    }
    assert len(images.outline(np.ones((3, 4), dtype=bool))) == 2 * (3 + 4)  # no edge within
    assert images.outline(np.zeros((3, 4), dtype=bool)).shape == (0, 2, 2)


@LAYOUTS
def test_scores_and_subset_are_shown_at_each_pixel_wherever_the_channels_are(channels):
    e = made(channels=channels)
    assert images.pixel_scores(e, 0).tolist() == [[0.3, 0.3, -0.1], [0.3, 0.2, -0.1]]
    assert images.pixel_mask(e, 1).tolist() == [[False, True, True]] * 2
    shown = images.picture(e, 0)
    assert shown.shape == (2, 3, 3)
    assert shown[1, 2].tolist() == ([1.0, 1.0, 1.0] if channels == "none" else [1.0, 0.5, 0.25])


def test_channels_are_told_by_the_features_where_the_shape_does_not_tell():
    one = fans.Explainer(
        lambda x: x.mean((1, 2, 3)),
        np.random.default_rng(0).random((20, 3, 4, 3)),
        space=fans.spaces.Image("patch", patch=2, channels="last"),
        n_pairs=20,
    )(np.zeros((3, 4, 3)), progress=False)
    assert one.channel_axis == 2
    assert images.pixel_mask(one, 0).shape == (3, 4)
    same = replace(made(), elements=np.zeros((2, 3, 2, 3), dtype=int))
    assert same.channel_axis == 0
    tall = np.zeros((2, 9, 5, 3))
    assert replace(same, inputs=tall, elements=tall.astype(int)).channel_axis == 2


def test_values_outside_0_to_1_are_rescaled_by_the_image_itself():
    e = made(channels="none")
    e = replace(e, inputs=np.stack([6 * e.inputs[0] - 2, e.inputs[1]]))
    assert images.picture(e, 0)[..., 0] == pytest.approx((6 * e.inputs[1] - 2 + 2) / 6)
    assert images.picture(e, 1)[..., 0] == pytest.approx(e.inputs[1])
    assert np.all(images.picture(replace(e, inputs=np.full((2, 2, 3), 7.0)), 0) == 0)


@LAYOUTS
def test_the_picture_of_images(channels, tmp_path):
    e = made(channels=channels)
    figure = e.plot(tmp_path / "image.png")
    assert (tmp_path / "image.png").stat().st_size > 5_000
    *panels, bar = figure.axes
    assert len(panels) == 2 * 3
    for i in range(2):
        image, heat, subset = panels[3 * i : 3 * i + 3]
        assert np.asarray(image.images[0].get_array()).shape == (2, 3, 3)
        scores = heat.images[-1]
        assert np.array_equal(scores.get_array(), images.pixel_scores(e, i))
        assert scores.get_clim() == (-1.0, 1.0)  # not 9: the second image has no third superpixel
        edges = np.array(subset.collections[0].get_segments())
        assert edge_set(edges) == edge_set(images.outline(images.pixel_mask(e, i)))
        title = image.get_title(loc="left")
        name = ("Sneaker", "<Bag>")[i]
        assert f"P({name}) = 0.9" in title
        assert "PNS 0.25 [0.20, 0.30]   PN 0.74 [0.70, 0.80]   PS 0.61 [0.50, 0.70]" in title
    assert bar.get_ylim() == (-1.0, 1.0)
    assert [text.get_text() for text in bar.get_yticklabels()] == ["-1", "-0.5", "0", "0.5", "1"]
    colours = panels[1].images[-1].cmap
    assert colours(0.5)[:3] == pytest.approx(to_rgb(images.STOPS[2]), abs=0.02)  # 0 in the middle
    assert np.allclose(
        colours([0.0, 0.25, 0.75, 1.0])[:, :3], images.coloured(np.array([-1, -0.5, 0.5, 1]), 1), atol=0.02
    )


@pytest.mark.parametrize(
    ("n", "columns", "shown", "shape"),
    [(5, None, 5, (3, 2)), (5, 3, 5, (2, 3)), (2, 9, 2, (1, 2)), (14, 4, 12, (3, 4))],
)
def test_the_grid_of_images(n, columns, shown, shape):
    figure = made(n).plot(columns=columns)
    *panels, _ = figure.axes
    assert len(panels) == 3 * shown
    places = [panel.get_position() for panel in panels[::3]]
    assert (len({round(p.y0, 6) for p in places}), len({round(p.x0, 6) for p in places})) == shape
    corners = np.array([[p.x0, p.y0, p.x1, p.y1] for p in (panel.get_position() for panel in panels)])
    assert corners.min() >= 0
    assert corners.max() <= 1


class Balanced(HTMLParser):
    """Checks that tags close in order; keeps the sources of images, and anything else that is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.alternatives: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert not {"href", "srcset"} & set(given)
        if tag == "img":
            self.sources.append(given["src"])
            self.alternatives.append(given["alt"])
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text: str) -> Balanced:
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_of_images_is_valid_and_needs_nothing_else(tmp_path):
    e = made(3)
    text = e.to_html(tmp_path / "image.html").read_text()
    page = parsed(text)
    assert len(page.sources) == 9
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert page.alternatives[:3] == ["0: image", "0: scores", "0: 2 of 3 superpixels"]
    assert "http" not in text
    assert "url(" not in text
    assert "<table>" not in text
    assert "&lt;Bag&gt;" in text
    assert "<Bag>" not in text
    assert "PNS 0.25 [0.20, 0.30]" in text
    assert len(parsed(made(14)._repr_html_()).sources) == 36
    assert "2 more inputs are not shown" in made(14)._repr_html_()


def test_the_pictures_within_the_page_show_the_pixels():
    e = made()
    sources = parsed(e[0]._repr_html_()).sources
    image, scores, subset = (imread(io.BytesIO(base64.b64decode(s.split(",")[1]))) for s in sources)
    side = 56  # 168 / 3
    assert image.shape == scores.shape == subset.shape == (2 * side, 3 * side, 3)
    middle = slice(side // 2, None, side)
    assert image[middle, middle] == pytest.approx(images.picture(e, 0), abs=1 / 255)
    expected = images.coloured(images.pixel_scores(e, 0), 0.3)
    assert scores[middle, middle] == pytest.approx(
        0.75 * expected + 0.25 * images.greyed(images.picture(e, 0)), abs=0.01
    )
    orange = np.all(np.abs(subset - to_rgb(images.OUTLINE)) < 0.01, axis=2)
    inside = images.pixel_mask(e, 0).repeat(side, 0).repeat(side, 1)
    assert not (orange & ~inside).any()
    assert orange[0, : 2 * side].all()  # along the upper end of the image
    assert orange[: 2 * side, 0].all()
    assert orange[:side, 2 * side - 1].all()  # between the second pixel and the third, which is not chosen
    assert not orange[side // 2, side].any()  # none between two chosen pixels


def test_large_images_are_thinned_out_and_png_files_are_exact():
    values = np.random.default_rng(0).integers(0, 256, (5, 7, 3)) / 255
    assert np.array_equal(np.round(imread(io.BytesIO(images.png(values))) * 255), np.round(values * 255))
    large = np.zeros((1, 600, 40))
    e = replace(made(1, "none"), inputs=large, elements=large.astype(int))
    assert images.panels(e, 0, 1.0)[0].shape == (300, 20, 3)


def test_the_page_needs_no_matplotlib():
    code = (
        "import sys\n"
        "for name in ('pandas', 'sklearn', 'matplotlib', 'PIL', 'skimage'):\n"
        "    sys.modules[name] = None\n"
        "import fans, numpy as np\n"
        "rows = np.random.default_rng(0).random((30, 1, 8, 8))\n"
        "e = fans.Explainer(lambda x: x[:, 0, 2:4, 2:4].mean((1, 2)), rows, n_pairs=30)(rows[:2])\n"
        "assert e._repr_html_().count('data:image/png') == 6\n"
        "try:\n"
        "    e.plot()\n"
        "except fans.MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    assert "Expected matplotlib for `plot`" in done.stdout


def test_several_explanations_on_one_page(e, tmp_path):
    text = pages({"Rows & columns": e, "Images": made()}, tmp_path / "all.html").read_text()
    assert len(parsed(text).sources) == 6
    assert text.count("<table>") == 4
    assert "<h2>Rows &amp; columns</h2>" in text
    assert text.count("<style>") == 1


@LAYOUTS
def test_the_sentence_of_an_image_counts_regions_and_area(channels):
    first, second = made(channels=channels).sentences
    assert first == (  # four of six pixels
        "Perturbing 2 of 3 superpixels (67 % of the image) moves P(Sneaker) by more than 0.12 in 61 % of trials; "
        "perturbing everything else leaves it within that in 74 %."
    )
    assert second.startswith("Perturbing 1 of 2 superpixels (67 % of the image) moves P(<Bag>)")


def test_everything_is_what_an_image_has():
    e = made(subset=np.array([[True, True, True], [True, True, False]]))
    for n, text in zip((3, 2), e.sentences, strict=True):
        assert text == (
            f"Perturbing {n} of {n} superpixels (100 % of the image) moves {e.target_name(3 - n)} by more than 0.12 in "
            f"61 % of trials; no part of the {n} superpixels stands out: only all of them together are named."
        )


def test_the_regions_have_their_own_words():
    e = made()
    for names, words in (
        (("rows 0-1, columns 0-1", "b", "c"), "2 of 3 patches"),
        (("row 0, column 0", "b", "c"), "2 of 3 pixels"),
        (("a", "b", "c"), "2 of 3 features"),
    ):
        assert f"Perturbing {words} (" in replace(e, feature_names=names).sentences[0]
    alone = replace(e[1], elements=np.zeros_like(e[1].elements), subset=np.array([[True, False, False]]))
    assert "Perturbing 1 of 1 superpixel (100 %" in alone.sentences[0]


@LAYOUTS
def test_the_value_of_a_region_is_its_mean_in_that_image(channels):
    e = made(channels=channels)
    dimming = 1 if channels == "none" else (1 + 1 / 2 + 1 / 4) / 3
    assert float(e.value(0, 0)) == pytest.approx(dimming * (0.0 + 0.1 + 0.3) / 3, rel=1e-3)
    assert float(e.value(1, 0)) == pytest.approx(dimming * (0.0 + 0.3) / 2, rel=1e-3)
    assert e.value(1, 2) == "absent"
    shared = replace(e, elements=e.elements[0])
    assert float(shared.value(1, 0)) == pytest.approx(dimming * (0.0 + 0.1 + 0.3) / 3, rel=1e-3)
    assert shared.value(1, 2) == f"{dimming * 0.4:.4g}"


def test_the_frame_has_only_the_regions_an_image_has():
    frame = made().to_frame()
    assert frame["feature"].tolist() == [f"superpixel {k}" for k in (1, 2, 3, 1, 2)]
    assert frame["id"].tolist() == [0, 0, 0, 1, 1]
    assert frame["score"].tolist() == [0.3, -0.1, 0.2, 0.5, -1.0]
    assert frame["chosen"].tolist() == [True, False, True, False, True]
    assert frame["score_se"].isna().all()
    assert frame["target"].tolist() == [0, 0, 0, 1, 1]


@LAYOUTS
@pytest.mark.filterwarnings("ignore")
def test_shap_takes_images(channels):
    shap = pytest.importorskip("shap")
    e = made(channels=channels)
    found = e.to_shap()
    assert found.values.shape == found.data.shape == (2, 2, 3, 1 if channels == "none" else 3)
    for i in range(2):
        assert found.values[i].sum(-1) == pytest.approx(images.pixel_scores(e, i))
    shap.image_plot(found, show=False)


@pytest.mark.parametrize("own", [True, False])
def test_saving_and_slicing_keep_regions_and_history(own, tmp_path):
    history = np.array([[1.0, 2.0, 3.0], [0.5, 0.75, np.nan]])
    e = made(history=history)
    if not own:
        e = replace(e, elements=e.elements[0])
    back = fans.load(e.save(tmp_path / "e.safetensors"))
    assert np.array_equal(back.elements, e.elements)
    assert back.history is not None
    assert np.array_equal(back.history, history, equal_nan=True)
    assert back.sentences == e.sentences
    assert np.array_equal(back.heatmap, e.heatmap)
    for some, places in ((back[1], [1]), (back[::-1], [1, 0]), (back[[1, 1]], [1, 1])):
        assert np.array_equal(some.elements, e.elements[places] if own else e.elements)
        assert some.history is not None
        assert np.array_equal(some.history, history[places], equal_nan=True)
        assert np.array_equal(some.heatmap, e.heatmap[places])
        assert np.array_equal(some.present, e.present[places])
        assert some.sentences == tuple(e.sentences[i] for i in places)


def test_the_history_is_drawn_as_loss_with_its_mean(tmp_path):
    e = made(history=np.array([[1.0, 2.0, 3.0], [0.5, 0.75, np.nan]]))
    figure = e.plot_history(tmp_path / "history.png")
    assert (tmp_path / "history.png").stat().st_size > 5_000
    first, second, mean = figure.axes[0].lines
    assert first.get_ydata().tolist() == [-1, -2, -3]
    assert second.get_ydata()[:2].tolist() == [-0.5, -0.75]
    assert np.isnan(second.get_ydata()[2])
    assert mean.get_ydata().tolist() == [-0.75, -1.375, -1.875]  # the second stays at its last
    assert mean.get_xdata().tolist() == [1, 2, 3]
    with pytest.raises(fans.InputError, match="takes steps, got 'fans' without a history"):
        made().plot_history()
