"""A number instead of a class.

Of a regressor, "the prediction moves" means: by more than a tenth of the predictions' standard deviation, unless
`tolerance=` says what matters to you. Here it is 20 points of the score that is predicted.
"""

from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import fans

data = load_diabetes(as_frame=True, scaled=False)
model = GradientBoostingRegressor(random_state=0).fit(data.data[:300], data.target[:300])

explainer = fans.Explainer(model, data.data[:300], target_names=["progression"], tolerance=20)
explanation = explainer(data.data[300:302])
print(explanation.sentences[0])
print(explanation)
explanation.plot("regression.png", columns=2)
