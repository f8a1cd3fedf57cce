"""The trials themselves: what was changed, and what the model said then.

An estimate is a share of trials. `explainer.trials` shows some of them, the nearest first: images in which only the
subset was changed, and images in which everything else was.
"""

import matplotlib.pyplot as plt

import fans
from fans import datasets, networks

model, card = networks.load("mnist")
train, test = datasets.load_slice("mnist", "train"), datasets.load_slice("mnist", "test")
explainer = fans.Explainer(model, train.tensor(), target_names=test.classes, effort="low")
image = test.tensor([0])
explanation = explainer(image)
trials = explainer.trials(image, explanation.subset, n=6)

what = {"changed": "only the subset is changed", "kept": "everything but the subset is changed"}
figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for row, (side, title) in zip(axes, what.items(), strict=True):
    print(f"{title}: the output moves in {trials.moved[side][0].sum()} of these {len(trials.moved[side][0])}")
    for axis, shown, output, moved in zip(
        row, trials.inputs[side][0], trials.outputs[side][0], trials.moved[side][0], strict=False
    ):
        axis.imshow(shown[0], cmap="gray", vmin=0, vmax=1)
        axis.set_title(f"P = {output:.2f}, {'moves' if moved else 'stays'}", fontsize=9)
    row[0].set_ylabel(title.replace(" is changed", "\nis changed"), fontsize=9)
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
figure.savefig("trials.png", dpi=110)
