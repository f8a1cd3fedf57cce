"""Boosted trees: XGBoost, whole or as a raw booster.

The explained class is the predicted one unless `target=` names another. A raw `Booster` finds its columns by name.
"""

from sklearn.datasets import load_breast_cancer
from xgboost import XGBClassifier

import fans

data = load_breast_cancer(as_frame=True)
train, test = data.data[:400], data.data[400:]
model = XGBClassifier(n_estimators=60, max_depth=3, random_state=0).fit(train, data.target[:400])

names = ["malignant", "benign"]
explanation = fans.Explainer(model, train, target_names=names)(test[:2], target="malignant")
print(explanation)

booster = fans.Explainer(model.get_booster(), train)(test[:2])
print("the raw booster's subset:", ", ".join(booster.chosen_names(0)))
explanation.plot("boosted_trees.png", columns=2)
