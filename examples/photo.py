"""A photograph by superpixels.

What is perturbed together is a choice: pixels, patches or superpixels, which follow the edges of what is seen
(they need `pip install fans[image]`). The network is a ResNet18 on CIFAR-10.
"""

import fans
from fans import datasets, networks

model, card = networks.load("cifar10")
train, test = datasets.load_slice("cifar10", "train"), datasets.load_slice("cifar10", "test")

space = fans.spaces.Image("superpixel", n_segments=40)
explainer = fans.Explainer(
    model, train.tensor(slice(None, None, 16)), space=space, target_names=test.classes, effort="low", solver="game"
)
explanation = explainer(test.tensor([13]), ids=["photo 13"])
print(explanation)
explanation.plot("photo.png")
