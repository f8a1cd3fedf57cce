"""A loan refused, and why.

A table with words and numbers in it, and a scikit-learn pipeline. The applications are made up; the rule behind them is
known: what counts is the income for each unit of debt, and whether there was a default.
"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fans

rng = np.random.default_rng(0)
n = 1500
loans = pd.DataFrame(
    {
        "income": rng.lognormal(10.5, 0.4, n).round(-2),
        "debt": rng.lognormal(9.5, 0.7, n).round(-2),
        "age": rng.integers(20, 70, n),
        "purpose": rng.choice(["car", "house", "education"], n),
        "defaulted": rng.choice(["never", "once"], n, p=[0.85, 0.15]),
    }
)
refused = (loans["debt"] > 0.45 * loans["income"]) | (loans["defaulted"] == "once")
words = make_column_transformer((OneHotEncoder(), ["purpose", "defaulted"]), remainder="passthrough")
model = make_pipeline(words, RandomForestClassifier(100, min_samples_leaf=3, random_state=0))
model.fit(loans[:1000], np.where(refused[:1000], "refused", "granted"))

explainer = fans.Explainer(model, loans[:1000])
cases = loans[1000:][refused[1000:]].groupby("defaulted").head(2)
explanation = explainer(cases)
print(explanation)
explanation.plot("loans.png", columns=2)
