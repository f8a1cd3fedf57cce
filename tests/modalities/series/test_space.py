"""Series: windows, what stands in for them, layouts, and what is refused."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fans
from fans.methods.base import Method
from fans.modalities.registry import guess_space
from fans.spaces import Image, Series, Table
from tests.modalities.series import oracle
from tests.oracles import exact_joint_pns

pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def laid_out(series: Any, channels: str) -> Any:
    """Series `(n, C, T)` with their channels elsewhere."""
    if channels == "none":
        return series[:, 0]
    return np.swapaxes(series, 1, 2) if channels == "last" else series


def by_channel(series: Any, channels: str) -> Any:
    """The way back."""
    if channels == "none":
        return np.expand_dims(series, -2)
    return np.swapaxes(series, -1, -2) if channels == "last" else np.asarray(series)


class Convolution(nn.Module):
    """P of class 1 rises with the second channel in the second quarter."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu = nn.Conv1d(2, 2, 1), nn.ReLU()
        with torch.no_grad():
            self.conv.weight.copy_(torch.tensor([[0.0, 1.0], [0.0, -1.0]])[..., None])
        nn.init.zeros_(self.conv.bias)  # type: ignore[arg-type]

    def forward(self, series: Any) -> Any:
        found = self.relu(self.conv(series))
        z = 4 * ((found[:, 0] - found[:, 1])[:, 10:20].mean(1) - 0.7)
        return torch.stack([-z, z], 1)


class Recurrent(nn.Module):
    """An LSTM as it comes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.head = nn.LSTM(2, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, series: Any) -> Any:
        return 5 * self.head(self.lstm(series.transpose(1, 2))[0][:, -1])


def early(series: Any) -> Any:
    """The mean of each series' first ten elements: any callable."""
    return np.asarray(series).reshape(len(series), -1)[:, :10].mean(1)


@pytest.fixture(scope="module")
def noise() -> Any:
    return torch.from_numpy(random(60, 2, 40)).float()


@pytest.fixture(scope="module")
def planted() -> Any:
    """Four series that rise in the second channel, steps 10 to 19."""
    series = torch.from_numpy(random(4, 2, 40, seed=1)).float()
    series[:, 1, 10:20] = 1.5
    return series


# --- PNS against the enumeration of every perturbation ---------------------------------------------------------------


def curved(rows: Any) -> Any:
    """Two outputs of flat series, with an interaction of the first element and the last."""
    rows = np.asarray(rows).reshape(len(rows), -1)
    first = np.tanh(rows @ np.cos(np.arange(rows.shape[1]))) + rows[:, 0] * rows[:, -1]
    return np.stack([first, rows[:, ::-1] @ np.cos(np.arange(rows.shape[1])) - 0.5], 1)


@pytest.mark.parametrize("baseline", ["mean", "linear", "blur", "zero", 0.3, "series"])
@pytest.mark.parametrize(
    ("channels", "n_channels", "n_steps", "window", "by"),
    [("first", 2, 9, 3, "window"), ("last", 2, 7, 2, "window"), ("none", 1, 10, 3, "window"),
     ("first", 3, 8, 8, "channel"), ("last", 2, 11, 3, "time"), ("none", 1, 4, 4, "window")],
)  # fmt: skip
def test_pns_is_that_of_the_enumeration(channels, n_channels, n_steps, window, by, baseline):
    background, x = random(12, n_channels, n_steps), random(2, n_channels, n_steps, seed=1)
    background[:, 0, 1] = 0.25  # an element that is constant counts as scale 1
    given, other = laid_out(background, channels), random(1, n_channels, n_steps, seed=2)
    places = np.arange(given[0].size).reshape(given[0].shape)
    place = by_channel(places, channels)
    features = [[int(place[c, t]) for c, t in pairs] for pairs in oracle.elements(n_channels, n_steps, window, by)]
    assert len(features) <= 8
    subset = np.arange(len(features)) % 2 == 0
    missing: Any = {
        "mean": oracle.own_mean,
        "linear": lambda series: oracle.chords(series, window),
        "blur": lambda series: oracle.smoothed(series, 1.7),
        "zero": np.zeros_like,
        0.3: lambda series: np.full_like(series, 0.3),
        "series": lambda _: other[0],
    }[baseline]
    stand_ins = laid_out(np.stack([missing(series) for series in background]), channels).reshape(12, -1)
    space = Series(window=None if by == "channel" else window, by=by, channels=channels, sigma=1.7)
    for change in ("target", "label"):
        out = fans.pns(
            curved, laid_out(x, channels), subset, background=given, space=space, radius=1.3, tolerance=0.2,
            baseline=laid_out(other, channels)[0] if baseline == "series" else baseline, change=change, target=0,
            estimator="exact",
        )  # fmt: skip
        for i in range(2):
            expected = exact_joint_pns(
                curved, laid_out(x, channels)[i].ravel(), subset, given.reshape(12, -1), stand_ins, 1.3, 0.2,
                change=change, elements=features,
            )  # fmt: skip
            for name, value in expected.items():
                np.testing.assert_allclose(getattr(out, name)[i], value, rtol=0, atol=1e-9, err_msg=name)


# --- Features --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_channels", "n_steps", "settings", "n_features", "window"),
    [(1, 100, {}, 25, 4), (1, 10, {}, 10, 1), (3, 200, {}, 75, 8), (12, 1000, {}, 240, 50), (50, 500, {}, 250, 100),
     (300, 40, {}, 300, 40), (3, 200, {"by": "time"}, 25, 8), (3, 200, {"by": "channel"}, 3, 200),
     (2, 50, {"window": 20}, 6, 20)],
)  # fmt: skip
def test_windows_are_about_25_and_features_not_many_more_than_250(n_channels, n_steps, settings, n_features, window):
    fitted = Series(channels="first", **settings).fit(random(3, n_channels, n_steps))
    assert (fitted.n_features, fitted.window) == (n_features, window)
    assert fitted.units(torch.zeros(1, 1)).size.sum() == n_channels * n_steps


MINUTES = [datetime(2024, 5, 1, 8) + timedelta(minutes=5 * i) for i in range(50)]
ZONED = [moment.replace(tzinfo=UTC) for moment in MINUTES]


@pytest.mark.parametrize(
    ("settings", "first", "last"),
    [({"window": 20}, "channel 0, steps 0-19", "channel 1, steps 40-49"),
     ({"window": 49}, "channel 0, steps 0-48", "channel 1, step 49"),
     ({"window": 20, "channel_names": ["heart rate", "spo2"]}, "heart rate 0-19", "spo2 40-49"),
     ({"by": "channel"}, "channel 0", "channel 1"),
     ({"by": "time", "window": 20}, "steps 0-19", "steps 40-49"),
     ({"window": 20, "times": np.arange(50) * 10}, "channel 0, 0-190", "channel 1, 400-490"),
     ({"window": 20, "times": np.arange(50) / 8}, "channel 0, 0 to 2.375", "channel 1, 5 to 6.125"),
     ({"window": 20, "times": MINUTES}, "channel 0, 08:00 to 09:35", "channel 1, 11:20 to 12:05"),
     ({"window": 20, "times": ZONED}, "channel 0, 08:00 UTC to 09:35 UTC", "channel 1, 11:20 UTC to 12:05 UTC"),
     ({"by": "time", "window": 20, "times": np.datetime64("2024-02-20") + np.arange(50)},
      "2024-02-20 to 2024-03-10", "2024-03-31 to 2024-04-09"),
     ({"by": "time", "window": 20, "times": np.datetime64("2024-02-20T06") + 6 * np.arange(50)},
      "2024-02-20 06:00 to 2024-02-25 00:00", "2024-03-01 06:00 to 2024-03-03 12:00"),
     ({"by": "time", "window": 20, "times": np.arange(50) * np.timedelta64(90, "s")}, "0:00:00 to 0:28:30",
      "1:00:00 to 1:13:30")],
)  # fmt: skip
def test_names_are_those_of_channels_and_times(settings, first, last):
    fitted = Series(**settings).fit(random(3, 2, 50))
    assert (fitted.feature_names[0], fitted.feature_names[-1]) == (first, last)
    assert len(set(fitted.feature_names)) == fitted.n_features


def test_one_channel_needs_no_name():
    assert Series(window=5).fit(random(3, 10)).feature_names == ("steps 0-4", "steps 5-9")
    assert Series(by="channel").fit(random(3, 10)).feature_names == ("the series",)


# --- The guess of the space ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((5, 3, 200), "first"), ((5, 1, 100), "first"), ((5, 12, 1000), "first"), ((5, 9, 128), "first"),
     ((5, 128, 9), "last"), ((5, 50, 500), "first"), ((5, 100, 1), "last"), ((5, 1, 2), "first")],
)  # fmt: skip
def test_what_is_long_and_thin_is_a_series(shape, channels):
    space = guess_space(np.zeros(shape))
    assert isinstance(space, Series)
    assert space.fit(random(*shape)).channels == channels


@pytest.mark.parametrize("shape", [(5, 28, 28), (5, 64, 48), (5, 3, 3), (5, 40, 101), (5, 1, 1), (5, 1, 20, 300)])
def test_images_stay_images(shape):
    assert isinstance(guess_space(np.zeros(shape)), Image)


@pytest.mark.parametrize(
    ("shape", "kind", "words"),
    [((5, 24, 80), Image, r"as grey images, .* pass space=fans.spaces.Series\(\) if they are series of 24 channels"),
     ((5, 24, 100), Series, r"as series of 24 channels and 100 steps; pass space=fans.spaces.Image\(\)"),
     ((5, 100, 24), Series, "as series of 24 channels and 100 steps")],
)  # fmt: skip
def test_a_close_call_is_told_once(shape, kind, words):
    with pytest.warns(fans.FansWarning, match=words) as told:
        assert isinstance(guess_space(np.zeros(shape)), kind)
    assert len(told) == 1


def test_two_dimensions_stay_a_table():
    assert isinstance(guess_space(random(20, 200)), Table)
    explanation = fans.Explainer(early, random(20, 200), space=Series())(random(1, 200, seed=1))
    assert explanation.modality == "series"


def test_feature_names_are_those_of_the_channels(noise):
    explainer = fans.Explainer(early, noise, feature_names=["heart rate", "pressure"])
    assert explainer.task.space.feature_names[0] == "heart rate 0-1"


def test_either_axis_may_be_time():
    with pytest.warns(fans.FansWarning, match=r"as 30 channels of 24 steps; pass Series\(channels=\"last\"\)"):
        assert Series().fit(random(5, 30, 24)).channels == "first"
    assert Series(channels="last").fit(random(5, 30, 24)).feature_names[-1] == "channel 23, steps 27-29"


# --- Explaining ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", ["first", "last"])
@pytest.mark.parametrize("baseline", Series.baselines)
def test_a_network_is_explained_by_what_was_planted(noise, planted, baseline, channels):
    class Either(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Convolution()

        def forward(self, series: Any) -> Any:
            return self.inner(series if channels == "first" else series.transpose(1, 2))

    background, x = (torch.from_numpy(laid_out(t.numpy(), channels).copy()) for t in (noise, planted))
    explainer = fans.Explainer(Either(), background, space=Series(window=10), baseline=baseline)
    explanation = explainer(x)
    assert explanation.settings["solver"] == "chain"
    assert explanation.scores.argmax(1).tolist() == [5] * 4
    if baseline != "linear":  # a line over ten steps of a level is that level
        assert explanation.chosen_names(0)[0] == "channel 1, steps 10-19"
    assert by_channel(explanation.heatmap, channels)[:, 1, 10:20] == pytest.approx(
        np.repeat(explanation.scores[:, 5, None], 10, 1)
    )


@pytest.mark.parametrize("channels", ["first", "last", "none"])
def test_a_callable_gets_series_as_the_background_came(channels):
    seen = []

    def model(series: Any) -> Any:
        seen.append((type(series), series.shape[1:], series.dtype))
        return by_channel(series, channels)[:, -1, 10:20].mean(1)

    background = laid_out(random(40, 2, 30), channels)
    explanation = fans.Explainer(model, background, space=Series(window=10, channels=channels))(background[0])
    assert set(seen) == {(np.ndarray, background.shape[1:], np.dtype(np.float64))}
    assert explanation.settings["solver"] == "walks"
    assert explanation.scores.argmax() == (1 if channels == "none" else 4)
    assert explanation.inputs.shape == (1, *background.shape[1:])


def test_a_classifier_of_scikit_learn_reads_raw_values():
    from sklearn.linear_model import LogisticRegression

    series = random(300, 40)
    series[:150, 20:25] += 2
    model = LogisticRegression().fit(series, np.arange(300) < 150)
    explanation = fans.Explainer(model, series, space=Series(window=5))(series[:5])
    assert [explanation.chosen_names(i)[0] for i in range(5)] == ["steps 20-24"] * 5
    assert explanation.target_names == ("False", "True")


def test_gradients_flow_through_a_recurrent_network(noise):
    explanation = fans.Explainer(Recurrent(), noise, space=Series(window=10))(noise[:3])
    assert explanation.settings["solver"] == "chain"
    assert (np.abs(explanation.scores).sum(1) > 0).all()
    for method in ("saliency", "integrated_gradients"):
        scores = fans.Explainer(Recurrent(), noise, space=Series(window=10), method=method).scores(noise[:3])
        assert (scores.reshape(3, 2, 4)[..., -1] != 0).all()


QUICK: dict[str, dict[str, Any]] = {"kernel_shap": {"n_samples": 200}, "lime": {"n_samples": 200}}


@pytest.mark.parametrize("name", sorted(Method.registry))
@pytest.mark.parametrize("baseline", [None, "background", "noise"])
def test_every_method_works_or_refuses(noise, planted, name, baseline):
    member: Any = Method.registry[name]

    def make(**settings: Any) -> fans.Explainer:
        given = QUICK.get(name, {}) | settings
        return fans.Explainer(Convolution(), noise, method=name, space=Series(window=10), baseline=baseline, **given)

    if "table" not in member.modalities:
        with pytest.raises(fans.InputError, match=f"for method='{name}', got series inputs"):
            make()
        return
    scores = make().scores(planted)
    assert scores.shape == (4, 8)
    assert np.isfinite(scores).all()
    assert scores == pytest.approx(make(max_batch=13).scores(planted), abs=1e-4)
    if name not in ("random", "equal", "input_itself"):
        assert (np.abs(scores).argmax(1) == 5).all()


def test_draws_depend_on_the_seed_and_the_id_alone(noise, planted):
    explainer = fans.Explainer(Convolution(), noise, space=Series(window=10))
    whole, last = explainer(planted), explainer(planted[2:], ids=[2, 3])
    for name in ("scores", "subset", "pns", "interval"):
        np.testing.assert_allclose(getattr(whole[2:], name), getattr(last, name), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(explainer(planted).scores, whole.scores)
    assert not np.array_equal(fans.Explainer(Convolution(), noise, seed=1)(planted).scores, whole.scores)


def test_own_hypotheses_by_names_by_features_and_by_steps(noise, planted):
    space = Series(window=10)
    explainer = fans.Explainer(Convolution(), noise, space=space)
    mask = np.zeros((2, 40), dtype=bool)
    mask[1, 11:19] = True  # most of the window
    features = np.arange(8) == 5
    asked = [explainer.score(planted, given).pns for given in (features, ["channel 1, steps 10-19"], mask)]
    asked.append(explainer.score(planted, np.stack([mask] * 4)).pns)
    assert all(np.array_equal(asked[0], other) for other in asked)
    assert asked[0].min() > 0.5
    found = fans.pns(Convolution(), planted, mask, background=noise, space=space, phi=1.0)
    assert found.pns.shape == (4,)
    chosen = explainer.sweep(planted, np.tile(features * 1.0, (4, 1)))
    assert (chosen == features).all()


def test_what_stands_in_is_the_channels_own():
    background = np.stack([random(30, 20), 1000 + 50 * random(30, 20, seed=1)], 1)
    seen = []

    def model(series: Any) -> Any:
        seen.append(np.array(series))
        return series[:, 0].mean(1)

    how: dict[str, Any] = {"background": background, "space": Series(window=5), "baseline": "noise"}
    fans.pns(model, background[:1], np.ones(8, dtype=bool), **how)
    series = np.concatenate(seen)
    assert (series[:, 0].max(), series[:, 1].min()) < (10, 500)
    assert series[:, 1].min() > 500


def test_metrics_work_or_refuse(noise, planted):
    explainer = fans.Explainer(Convolution(), noise, space=Series(window=10))
    explanation = explainer(planted)
    truth = np.zeros((4, 2, 40), dtype=bool)
    truth[:, 1, 10:20] = True
    found = fans.evaluate(explanation, ["sparseness", "recall", "max_sensitivity"], explainer=explainer, truth=truth)
    assert found["recall"].tolist() == [1.0] * 4
    dropped = fans.evaluate(explanation, [fans.metrics.metric("deletion", fill=0.0)], explainer=explainer)
    assert (dropped["deletion"] < 0.5).all()
    with pytest.raises(fans.InputError, match="Expected images"):
        fans.evaluate(explanation, ["irof"], explainer=explainer)


# --- Frames ----------------------------------------------------------------------------------------------------------


def test_wide_frames_keep_their_columns_and_index():
    moments = pd.date_range("2024-01-01", periods=20, freq="h")
    frame = pd.DataFrame(random(30, 20), columns=moments, index=[f"patient {i}" for i in range(30)])
    seen = []

    def model(given: pd.DataFrame) -> Any:
        seen.append(list(given.columns))
        return given.iloc[:, :5].mean(axis=1)

    explainer = fans.Explainer(model, frame, space=Series(window=5))
    explanation = explainer(frame.iloc[3:5])
    assert explanation.ids == ("patient 3", "patient 4")
    assert explanation.feature_names[0] == "00:00 to 04:00"
    assert explanation.chosen_names(0)[0] == "00:00 to 04:00"
    assert all(columns == list(moments) for columns in seen)
    np.testing.assert_array_equal(explainer.scores(frame.iloc[3], ids=["patient 3"])[0], explanation.scores[0])
    with pytest.raises(fans.InputError, match="Expected the background's columns in x, in their order"):
        explainer(frame.iloc[:, ::-1])
    with pytest.raises(fans.InputError, match="Expected x as a pandas frame like the background, got ndarray"):
        explainer(frame.to_numpy())


@pytest.mark.parametrize("columns", [range(20), [f"t{i}" for i in range(20)]])
def test_columns_that_are_no_times_are_steps(columns):
    frame = pd.DataFrame(random(30, 20), columns=columns)
    assert Series(window=5).fit(frame).feature_names[0] == "steps 0-4"


# --- Bad input -------------------------------------------------------------------------------------------------------


GOOD = random(30, 2, 40)
GAP = np.where(np.arange(2400).reshape(30, 2, 40) == 3 * 80 + 57, np.nan, GOOD)
SENTENCES: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "long window": ({"window": 41}, GOOD, None, r"`window` of at most 40, the steps of the series, got 41; by="),
    "no window": ({"window": 0}, GOOD, None, "`window` as a whole number of at least 1, got 0"),
    "window of channels": ({"window": 3, "by": "channel"}, GOOD, None, 'no `window` with by="channel"'),
    "unit": ({"by": "windows"}, GOOD, None, "did you mean 'window'"),
    "sigma": ({"sigma": 0}, GOOD, None, "`sigma` above 0, got 0"),
    "channels": ({"channels": "middle"}, GOOD, None, "'first', 'last', 'none', got 'middle'"),
    "none of three": ({"channels": "none"}, GOOD, None, r'2 dimensions for channels="none", .* \(30, 2, 40\)'),
    "first of two": ({"channels": "first"}, GOOD[:, 0], None, r'3 dimensions for channels="first", .* \(30, 40\)'),
    "names": ({"channel_names": ["a"]}, GOOD, None, "`channel_names` as 2 different names, one per channel"),
    "names alike": ({"channel_names": ["a", "a"]}, GOOD, None, "`channel_names` as 2 different names"),
    "few times": ({"times": [1, 2]}, GOOD, None, r"`times` as one of each of 40 steps, got shape \(2,\)"),
    "falling times": ({"times": -np.arange(40)}, GOOD, None, "`times` that rise from step to step"),
    "no times": ({"times": list("ab") * 20}, GOOD, None, "`times` as numbers or datetimes"),
    "NaT": ({"times": np.array(["NaT"] * 40, "datetime64[s]")}, GOOD, None, "`times` that rise"),
    "gap": ({}, GAP, None, r"finite numbers in background, got nan in series 3, channel 1, step 17 \(1 such"),
    "gap in x": ({}, GOOD, GAP[3], "finite numbers in x, got nan in series 0, channel 1, step 17"),
    "infinite": ({}, GOOD, np.full((2, 40), -np.inf), "finite numbers in x, got -inf"),
    "short": ({}, GOOD, GOOD[0, :, 1:], r"x of shape \(2, 40\) or \(batch, 2, 40\) .* got \(2, 39\); cut or pad"),
    "flat": ({}, GOOD, GOOD[0, 0], r"x of shape \(2, 40\) .* got \(40,\)"),
    "ragged": ({}, [[[1.0, 2.0], [1.0]]], None, "background with rows of one length"),
    "ragged x": ({}, GOOD, [[1.0, 2.0], [1.0]], "x with rows of one length"),
    "words": ({}, np.array([["a", "b"]]), None, "numbers in background, got <U1"),
    "a single series": ({}, GOOD[0, 0], None, r"got \(40,\); a single series is a background as series\[None\]"),
    "nothing": ({}, GOOD[:0], None, "at least one background sample"),
    "no x": ({}, GOOD, GOOD[:0], "at least one series in x"),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_bad_input_is_refused_in_a_sentence(case):
    settings, background, x, sentence = SENTENCES[case]
    with pytest.raises(fans.InputError, match=f"^Expected .*{sentence}") as refused:
        fans.Explainer(early, background, space=Series(**settings))(x)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("baseline", "sentence"),
    [("blank", "'mean', 'linear', 'background', 'zero', 'blur', 'noise', got 'blank'"),
     (random(2, 2, 40), "`baseline` as one series of shape"), (np.zeros(40), r"baseline of shape \(2, 40\)"),
     ({}, "`baseline` as a name, a number or a series")],
)  # fmt: skip
def test_baselines_are_refused_in_a_sentence(baseline, sentence):
    with pytest.raises(fans.InputError, match=sentence):
        fans.Explainer(early, GOOD, baseline=baseline)


def test_series_of_one_step_of_one_value_and_of_whole_numbers():
    one = fans.Explainer(early, random(30, 1), space=Series())(np.ones((2, 1)))
    assert one.feature_names == ("step 0",)
    still = fans.Explainer(early, np.zeros((30, 2, 40)))(np.zeros((2, 40)))
    assert not still.subset.any()
    whole = (100 * GOOD).astype(int)
    tensors = torch.from_numpy(whole)
    explanations = [fans.Explainer(early, given)(given[0]) for given in (whole, tensors)]
    np.testing.assert_array_equal(explanations[0].scores, explanations[1].scores)
    assert explanations[0].inputs.dtype == np.float64


def test_one_background_series_is_warned_of():
    with pytest.warns(fans.FansWarning, match="The background has one series"):
        fans.Explainer(early, GOOD[:1])(GOOD[1])


def test_ten_thousand_steps_take_seconds():
    background = random(20, 1, 10_000)
    started = time.perf_counter()
    explanation = fans.Explainer(early, background, baseline="blur")(background[:1])
    assert explanation.scores.shape == (1, 25)
    assert time.perf_counter() - started < 60
