"""Were these features it? Testing your own hypothesis.

You suspect some columns, and ask: keep them and change all else, does the prediction hold; change only them, does it
move; both? `explainer.score` answers with 95 % intervals. `fans.pns` asks the paper's question with the background that
you give, and with every knob.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import fans

data = load_breast_cancer(as_frame=True)
model = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(data.data[:400], data.target[:400])
explainer = fans.Explainer(model, data.data[:400], target_names=["malignant", "benign"])
tumour = data.data[400:401]

size = [name for name in data.data if name.split()[1] in {"radius", "perimeter", "area"}]
hollow = [name for name in data.data if name.split()[1] in {"concavity", "concave"}]
texture = [name for name in data.data if name.split()[1] in {"texture", "smoothness"}]
asked = {"size": size, "hollows": hollow, "size and hollows": size + hollow, "texture": texture}
answers = {name: explainer.score(tumour, columns) for name, columns in asked.items()}
for name, answer in answers.items():
    print(f"{name:17} keep {answer.holds[0]:.2f}  change {answer.changes[0]:.2f}  both {answer.pns[0]:.2f}")
print(fans.pns(model, tumour, size + hollow, background=data.data[:400]))

figure, axes = plt.subplots(1, 3, figsize=(9, 2.4), sharey=True, layout="constrained")
for y, answer in enumerate(answers.values()):
    changes, holds = answer.share_interval[0]
    drawn = (answer.holds[0], holds), (answer.changes[0], changes), (answer.pns[0], answer.interval[0, 0])
    for axis, (share, bounds) in zip(axes, drawn, strict=True):
        axis.plot(bounds, [y, y], color="0.6", linewidth=4, solid_capstyle="butt")
        axis.plot(share, y, "o", color="C0")
for axis, title in zip(axes, ("keep", "change", "both"), strict=True):
    axis.set(title=title, xlim=(-0.03, 1.03), yticks=range(len(answers)), yticklabels=answers)
axes[0].invert_yaxis()
figure.savefig("own_hypothesis.png", dpi=110)
