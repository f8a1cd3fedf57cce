"""A digit: which pixels make it a 4?

MNIST and a LeNet-5 come with the package. Small images are explained by pixels; the subset is what, kept alone, holds
the prediction, and what, changed alone, moves it.
"""

import fans
from fans import datasets, networks

model, card = networks.load("mnist")
train, test = datasets.load_slice("mnist", "train"), datasets.load_slice("mnist", "test")
print(f"{card.accuracy:.1%} right on {card.n_test:,} images it has not seen")

explainer = fans.Explainer(model, train.tensor(), target_names=test.classes)
explanation = explainer(test.tensor([4, 1]))
print(explanation)
print("pixels in the subsets:", explanation.mask.sum((1, 2, 3)).tolist())
explanation.plot("digit.png", columns=2)
