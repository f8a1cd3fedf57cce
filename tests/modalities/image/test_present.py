"""Images in words, pictures and pages."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

import fans
from fans.modalities.image import pictures as images
from fans.report import colours
from fans.report.pixels import png
from fans.report.sentences import percent
from tests.report.made import by_pixel
from tests.report.made import small_images as made
from tests.report.subjects import parsed

# Images.

LAYOUTS = pytest.mark.parametrize("channels", ["first", "last", "none"])


@LAYOUTS
def test_scores_and_subset_are_shown_at_each_pixel_wherever_the_channels_are(channels):
    e = made(channels=channels)
    assert images.pixel_scores(e, 0).tolist() == [[0.3, 0.3, -0.1], [0.3, 0.2, -0.1]]
    assert images.pixel_mask(e, 1).tolist() == [[False, True, True]] * 2
    shown = images.picture(e, 0)
    assert shown.shape == (2, 3, 3)
    assert shown[1, 2].tolist() == ([1.0, 1.0, 1.0] if channels == "none" else [1.0, 0.5, 0.25])


def test_channels_are_told_by_the_features_where_the_shape_does_not_tell():
    patches = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 2]])
    one = replace(made(1), inputs=np.zeros((1, 3, 4, 3)), elements=patches[..., None].repeat(3, -1))
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
        shown = panels[3 * i : 3 * i + 3]
        expected = images.panels(e, i, 1.0)  # not 9: the second image has no third superpixel
        for axis, panel in zip(shown, expected, strict=True):
            assert np.array_equal(axis.images[0].get_array(), np.clip(panel, 0, 1))
        name = ("Sneaker", "<Bag>")[i]
        title = f"image {i}: P({name}) = 0.9\nkeep 93 %   change 97 %   both 90 % [86, 93]"
        assert shown[0].get_title(loc="left") == title
    assert bar.get_ylim() == (-1.0, 1.0)
    assert [text.get_text() for text in bar.get_yticklabels()] == ["-1", "0", "0.25", "0.5", "0.75", "1"]
    assert made(scores=np.abs(e.scores)).plot().axes[-1].get_ylim() == (0.0, 1.0)


def test_the_colours_of_scores_get_darker_and_stay_faint_below_0():
    assert colours.coloured(np.array(0.0)) == pytest.approx(1)
    above = colours.coloured(np.linspace(0, 1, 50)) @ np.array([0.299, 0.587, 0.114])
    assert (np.diff(above) < 0).all()
    assert colours.coloured(np.array(-1.0)) @ np.array([0.299, 0.587, 0.114]) > 0.7


def test_a_subset_of_pixels_is_drawn_as_smooth_regions_of_the_same_area():
    draws = np.random.default_rng(0)
    row, column = np.mgrid[:28, :28]
    mask = (np.hypot(row - 14, column - 12) < 7) ^ (draws.random((28, 28)) < 0.08)
    e = by_pixel(draws.random((1, 1, 28, 28)), draws.random((1, 28, 28)), mask[None])
    assert np.array_equal(e.mask[0, 0], mask)  # what was chosen stays exact
    drawn = images.region(mask, 12)
    assert drawn.mean() == pytest.approx(mask.mean(), rel=0.02)
    steps, drawn_steps = (np.abs(np.diff(some.astype(int))).sum() for some in (mask, drawn))
    assert drawn_steps < 0.5 * 12 * steps  # the disc alone has a quarter of them
    assert not images.region(np.zeros((28, 28), dtype=bool), 12).any()
    assert images.region(np.ones((28, 28), dtype=bool), 12).all()
    assert images.panels(e, 0, 1.0)[2].shape == (336, 336, 3)
    assert f"{mask.sum()} of 784 pixels, smoothed</figcaption>" in e._repr_html_()
    assert e.sentences[0].startswith(
        f"Keep {percent(mask.mean())} of the image ({mask.sum()} of 784 pixels), and change"
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


def test_the_page_of_images_is_valid_and_needs_nothing_else(tmp_path):
    e = made(3)
    text = e.to_html(tmp_path / "image.html").read_text()
    page = parsed(text)
    assert len(page.sources) == 9
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert page.alternatives[:3] == ["image 0: image", "image 0: scores", "image 0: 2 of 3 superpixels"]
    assert "http" not in text
    assert "url(" not in text
    assert "<table>" not in text
    assert "&lt;Bag&gt;" in text
    assert "<Bag>" not in text
    assert "PNS 0.90 [0.86, 0.93]" in text
    assert len(parsed(made(14)._repr_html_()).sources) == 36
    assert "2 more inputs are not shown" in made(14)._repr_html_()


def test_the_pictures_within_the_page_show_the_pixels():
    e = made()
    sources = parsed(e[0]._repr_html_()).sources
    image, scores, subset = (imread(io.BytesIO(base64.b64decode(s.split(",")[1]))) for s in sources)
    side = 112  # 336 / 3
    assert image.shape == scores.shape == subset.shape == (2 * side, 3 * side, 3)
    middle = slice(side // 2, None, side)
    assert image[middle, middle] == pytest.approx(images.picture(e, 0), abs=1 / 255)
    assert np.abs(np.diff(images.smooth(images.pixel_scores(e, 0), side, 0.5))).max() < 0.01
    assert scores[side, 5] == pytest.approx(images.scored(image, np.full(image.shape[:2], 1.0))[side, 5], abs=0.05)
    orange = np.all(np.abs(subset - to_rgb(colours.OUTLINE)) < 0.01, axis=2)
    inside = images.pixel_mask(e, 0).repeat(side, 0).repeat(side, 1)
    assert not (orange & ~inside).any()
    assert orange[0, : 2 * side].all()  # along the upper end of the image
    assert orange[: 2 * side, 0].all()
    assert orange[:side, 2 * side - 1].all()  # between the second pixel and the third, which is not chosen
    assert not orange[side // 2, side].any()  # none between two chosen pixels


def test_large_images_are_thinned_out_and_png_files_are_exact():
    values = np.random.default_rng(0).integers(0, 256, (5, 7, 3)) / 255
    assert np.array_equal(np.round(imread(io.BytesIO(png(values))) * 255), np.round(values * 255))
    large = np.zeros((1, 600, 40))
    e = replace(made(1, "none"), inputs=large, elements=large.astype(int))
    assert images.panels(e, 0, 1.0)[0].shape == (600, 40, 3)


@LAYOUTS
def test_the_sentence_of_an_image_counts_regions_and_area(channels):
    first, second = made(channels=channels).sentences
    assert first == (  # four of six pixels
        "Keep 67 % of the image (2 of 3 superpixels), and change everything else: P(Sneaker) stays within 0.1 in 93 % "
        "of trials. Change only this part: P(Sneaker) moves by more than 0.1 in 97 % of trials. Both: 90 %. "
        "(PNS 0.90, 95 % interval [0.86, 0.93], PN 0.93, PS 0.97)"
    )
    assert second.startswith("Keep 67 % of the image (1 of 2 superpixels), and change everything else: P(<Bag>) stays")


def test_everything_is_what_an_image_has():
    e = made(subset=np.array([[True, True, True], [True, True, False]]))
    for n, none, text in zip((3, 2), ("No part", "Neither"), e.sentences, strict=True):
        assert text.startswith(
            f"{none} of the {n} superpixels stands out. Change 100 % of the image together: "
            f"{e.target_name(3 - n)} moves by more than 0.1 in 97 % of trials."
        )


def test_the_regions_have_their_own_words():
    e = made()
    for names, words in (
        (("rows 0-1, columns 0-1", "b", "c"), "2 of 3 patches"),
        (("row 0, column 0", "b", "c"), "2 of 3 pixels"),
        (("a", "b", "c"), "2 of 3 features"),
    ):
        assert f"of the image ({words})" in replace(e, feature_names=names).sentences[0]
    alone = replace(e[1], elements=np.zeros_like(e[1].elements), subset=np.array([[True, False, False]]))
    assert alone.sentences[0].startswith("There is only one superpixel. Change 100 % of the image: ")


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
