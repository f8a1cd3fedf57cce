"""Explanations as pandas frames."""

import pytest

from tests.report.made import small_images as made


def test_the_frame_has_a_row_for_each_input_and_feature(e):
    frame = e.to_frame()
    assert len(frame) == 12
    second = frame[frame["id"] == 1].set_index("feature")
    assert second["score"].tolist() == e.scores[1].tolist()
    assert second["chosen"].tolist() == e.subset[1].tolist()
    assert (second["pns"] == e.pns[1]).all()
    assert float(second.loc["x1", "value"]) == pytest.approx(e.inputs[1, 0], rel=1e-3)
    for name in ("direction", "stability"):
        assert second[name].tolist() == getattr(e, name)[1].tolist()
    for name in ("changes", "holds"):
        assert (second[name] == getattr(e, name)[1]).all()


def test_the_frame_has_only_the_regions_an_image_has():
    frame = made().to_frame()
    assert frame["feature"].tolist() == [f"superpixel {k}" for k in (1, 2, 3, 1, 2)]
    assert frame["id"].tolist() == [0, 0, 0, 1, 1]
    assert frame["score"].tolist() == [0.3, -0.1, 0.2, 0.5, -1.0]
    assert frame["chosen"].tolist() == [True, False, True, False, True]
    assert frame["score_se"].isna().all()
    assert frame["target"].tolist() == [0, 0, 0, 1, 1]
