"""How large must the subset be? PNS against its size.

`explainer.curve` estimates keep, change and both for every size and several tolerances from one set of draws. Of a
black box on a table the subset has the columns with a fair share of the scores; here twice as many would do twice as
well, and `members="pns"` asks for those.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import fans

data = load_breast_cancer(as_frame=True)
model = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(data.data[:400], data.target[:400])
explainer = fans.Explainer(model, data.data[:400], target_names=["malignant", "benign"])
explanation = explainer(data.data[400:401])
print(explanation)
curve = explainer.curve(explanation)[0]

used = curve.used[0]
print("size  keep  change  both")
for k, size in enumerate(curve.sizes[0]):
    keep, change, both = curve.holds[0, k, used], curve.changes[0, k, used], curve.pns[0, k, used]
    mark = "  <- chosen" if k == curve.chosen[0] else ""
    print(f"{size:4}  {keep:.2f}  {change:6.2f}  {both:.2f}{mark}")

figure, axis = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
sizes, bounds = curve.sizes[0], curve.intervals[0, :, used, 0]
axis.fill_between(sizes, bounds[:, 0], bounds[:, 1], alpha=0.2, label="95 % interval of both")
axis.plot(sizes, curve.pns[0, :, used], "o-", markersize=3, label="both")
axis.plot(sizes, curve.holds[0, :, used], "--", label="keep")
axis.plot(sizes, curve.changes[0, :, used], ":", label="change")
axis.axvline(sizes[curve.chosen[0]], color="0.4", linewidth=1)
axis.set(xlabel="columns in the subset", ylabel="share of trials", ylim=(-0.02, 1.02))
axis.legend(loc="lower right", fontsize=8)
figure.savefig("size_curve.png", dpi=110)
