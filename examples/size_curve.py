"""How large must the subset be? PNS against its size.

`explainer.curve` estimates keep, change and both for every size and several tolerances from one set of draws. Of a
black box on a table the subset has the columns with a fair share of the scores; here twice as many would do twice as
well, and `members="pns"` asks for those.
"""

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

figure = curve.plot("size_curve.png")
