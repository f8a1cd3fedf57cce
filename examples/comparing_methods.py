"""Comparing methods on the same images.

Every rival stands behind the same interface, explains the same features and replaces them by the same baseline.
`fans.evaluate` judges their scores; deletion and insertion remove and add pixels in the order of the scores.
"""

import matplotlib.pyplot as plt

import fans
from fans import datasets, networks

model, card = networks.load("fashion_mnist")
train, test = datasets.load_slice("fashion_mnist", "train"), datasets.load_slice("fashion_mnist", "test")
images = test.tensor(range(4))

found = {}
for name in ("fans", "integrated_gradients", "occlusion", "random"):
    explainer = fans.Explainer(model, train.tensor(), target_names=test.classes, method=name)
    attribution = explainer.attribute(images)  # the scores alone
    judged = fans.evaluate(attribution, ["deletion", "insertion", "sparseness"], explainer=explainer)
    means = "  ".join(f"{metric} {judged[metric].mean():.2f}" for metric in judged.values)
    print(f"{name:20}  {means}")
    found[name] = attribution

figure, axes = plt.subplots(2, 5, figsize=(9, 3.8), layout="constrained")
for row, image in zip(axes, (0, 3), strict=True):
    row[0].imshow(images[image, 0].numpy(), cmap="gray")
    row[0].set_title(test.classes[test.labels[image]], fontsize=9)
    for axis, (name, attribution) in zip(row[1:], found.items(), strict=True):
        heat = attribution.heatmap[image, 0]
        axis.imshow(heat, cmap="RdBu_r", vmin=-abs(heat).max(), vmax=abs(heat).max())
        axis.set_title(name.replace("_", " "), fontsize=9)
for axis in axes.flat:
    axis.axis("off")
figure.savefig("comparing_methods.png", dpi=110)
