"""A node of a graph: which edges made its class?

In BA-Community a node's class is its place in a "house" of five nodes, so that the edges that matter are known: those
of the house. A graph network of three layers was trained on it.
"""

import fans
from fans import datasets, networks

model, card = networks.load("ba_community")
graph = datasets.load_graph("ba_community")

explainer = fans.Explainer(model, graph, target_names=graph.classes)
explanation = explainer([430])
print(explanation)

joined = dict(zip(explanation.elements[0].tolist(), map(tuple, explanation.edges[0].tolist()), strict=True))
house = {frozenset(edge) for edge, true in zip(graph.edge_index.T.tolist(), graph.truth, strict=True) if true}
best = [joined[f] for f in explanation.ranked(0)[:6].tolist()]
print("of the six highest edges,", sum(frozenset(edge) in house for edge in best), "are of the house")
explanation.plot("node.png")
