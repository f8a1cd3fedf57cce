"""Any black box: a function of rows.

A rule book, a service behind an API, a model in another language: whatever takes rows and gives a number for each, or a
column for each class. It is asked in batches (`max_batch=` at a time), and about how many rows is told beforehand.
"""

import numpy as np

import fans

rng = np.random.default_rng(0)
names = ["temperature", "pressure", "vibration", "hours"]
columns = [rng.normal(70, 8, 500), rng.normal(5, 1, 500), rng.gamma(2, 1, 500), rng.uniform(0, 9, 500)]
machines = np.column_stack(columns)


def risk(rows):
    """Stand for a service that is asked over a network: one probability a row."""
    hot = rows[:, 0] > 80
    shaking = (rows[:, 2] > 3) & (rows[:, 3] > 5)
    return np.where(hot | shaking, 0.9, 0.1)


explainer = fans.Explainer(risk, machines, feature_names=names, max_batch=256)
print(f"about {explainer.rows_an_input:,} rows an input")
machine = np.array([72.0, 5.1, 5.5, 7.0])
explanation = explainer(machine, ids=["machine 7"])
print(explanation)
print(f"it took {explanation.n_evaluations[0]:,} rows")
for asked in (["vibration"], ["vibration", "hours"], ["temperature"]):
    print(f"{' and '.join(asked)}: {explainer.score(machine, asked)}")
explanation.plot("black_box.png")
