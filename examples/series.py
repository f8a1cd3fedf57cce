"""A series: when did it happen, and in which channel?

The alarm wants a fast heart for ten minutes and slow breathing for as long, at whatever time: both windows are
necessary, and together they are sufficient.
"""

import numpy as np

import fans

rng = np.random.default_rng(0)
minutes = np.datetime64("2024-05-01T08:00") + np.arange(120) * np.timedelta64(1, "m")
series = np.array([[70.0], [16.0]]) + rng.standard_normal((300, 2, 120)) + rng.standard_normal((300, 2, 1))


def alarm(series):
    """Return P(calm) and P(alarm)."""
    means = np.lib.stride_tricks.sliding_window_view(series, 10, axis=2).mean(3)
    p = 1 / (1 + np.exp(-np.minimum(means[:, 0].max(1) - 80, 13 - means[:, 1].min(1))))
    return np.stack([1 - p, p], 1)


patient = series[0].copy()
patient[0, 37:52] += 15
patient[1, 78:93] -= 6
windows = fans.spaces.Series(window=10, channel_names=["heart rate", "breathing"], times=minutes)
explainer = fans.Explainer(alarm, series, space=windows, target_names=["calm", "alarm"])
explanation = explainer(patient)
print(explanation)
print(explanation.chosen_names())
explanation.plot("series.png")
