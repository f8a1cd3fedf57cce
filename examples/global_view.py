"""Many rows together: what a model goes by.

Explain a few hundred rows for the same class, and ask in how many subsets each column is, and whether high values raise
the output or lower it.
"""

from lightgbm import LGBMClassifier
from sklearn.datasets import load_wine

import fans

data = load_wine(as_frame=True)
model = LGBMClassifier(n_estimators=40, random_state=0, verbose=-1).fit(data.data, data.target)
explainer = fans.Explainer(model, data.data, target_names=["Barolo", "Grignolino", "Barbera"], effort="low")
overview = explainer(data.data, target="Barolo").overview()
print(overview.to_frame()[["column", "chosen", "score", "words"]].head(6).round(2).to_string(index=False))
overview.plot("global_view.png", top=6)
