"""Garments: a shirt or a T-shirt?

With `target=` another class is explained than the predicted one. Here the network wavers between two classes, and each
has a subset of its own.
"""

import fans
from fans import datasets, networks

model, card = networks.load("fashion_mnist")
train, test = datasets.load_slice("fashion_mnist", "train"), datasets.load_slice("fashion_mnist", "test")

explainer = fans.Explainer(model, train.tensor(), target_names=test.classes, effort="low")
garment = test.tensor([170])
print(explainer(garment).sentences[0])

both = explainer(test.tensor([170, 170]), target=["Shirt", "T-shirt/top"], ids=["as a shirt", "as a T-shirt"])
print(both)
both.plot("garments.png", columns=2)
