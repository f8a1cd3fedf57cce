"""What is missing may be what decides.

Missing values reach the model as they are, and "missing" counts as a value like others. In this table a doctor ordered
the second test only where the first looked bad, so that its absence says something.
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import fans

rng = np.random.default_rng(1)
n = 1200
first = rng.normal(0, 1, n)
second = np.where(first + rng.normal(0, 0.3, n) > 0.5, rng.normal(1, 1, n), np.nan)
patients = pd.DataFrame({"first test": first, "second test": second, "height": rng.normal(170, 9, n)})
ill = np.where(np.isnan(second), rng.random(n) < 0.03, second > 0.6)
model = HistGradientBoostingClassifier(random_state=0).fit(patients[:900], np.where(ill[:900], "ill", "well"))

explainer = fans.Explainer(model, patients[:900])
later = patients[900:]
cases = pd.concat([later[later["second test"].isna()][:1], later[later["second test"] > 1][:1]])
explanation = explainer(cases, target="ill")
print(explanation)
print(explanation.to_frame()[["id", "feature", "value", "score", "chosen"]].round(2).to_string(index=False))
explanation.plot("missing_values.png", columns=2)
