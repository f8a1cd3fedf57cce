"""Rivals on the edges of graphs: against gradients and deletions on the whole graph."""

import numpy as np
import pytest
import torch

import fans
from tests.modalities.graph.test_space import Net, edges_of, kept, probabilities, random_graph

pytest.importorskip("torch_geometric")

GRAPH, MODEL = random_graph(n=40, n_edges=60), Net().eval()
NODE = 7
COLUMNS = {tuple(e): i for i, e in enumerate(GRAPH.edge_index.T.tolist())}


def explained(method, **settings):
    """The edges of the node, and the heatmap of a method."""
    made = fans.Explainer(MODEL, GRAPH, method=method, n_sweep=1, n_local=19, **settings)
    found = made([NODE])
    return [tuple(e) for e in edges_of(found)[kept(found)].tolist()], found.heatmap[0][kept(found)], found


def slope(weights):
    """The gradient of the predicted class's probability by the weights of all edges."""
    weights = weights.clone().requires_grad_()
    out = torch.softmax(MODEL(GRAPH.x, GRAPH.edge_index, weights)[NODE], 0)
    target = int(probabilities(MODEL, GRAPH, NODE).argmax())
    return torch.autograd.grad(out[target], weights)[0]


def both_ways(edge, values):
    """The mean of the two directions of an edge, which are one feature."""
    return float(values[[COLUMNS[edge], COLUMNS[edge[::-1]]]].mean())


def test_saliency_is_the_gradient_by_the_weights():
    edges, found, _ = explained("saliency", absolute=False)
    expected = slope(torch.ones(len(COLUMNS)))
    assert found == pytest.approx(np.array([both_ways(e, expected) for e in edges]), abs=1e-6)


def test_integrated_gradients_are_complete():
    edges, found, explanation = explained("integrated_gradients", n_steps=50)
    inside = torch.ones(len(COLUMNS))
    inside[[COLUMNS[e] for e in edges]] = 0
    with torch.no_grad():
        bare = torch.softmax(MODEL(GRAPH.x, GRAPH.edge_index, inside)[NODE], 0)
    assert found.sum() == pytest.approx(explanation.prediction[0] - float(bare[explanation.target[0]]), abs=1e-3)


def test_ablation_is_deletion():
    edges, found, explanation = explained("feature_ablation")
    target = explanation.target[0]
    for edge, score in zip(edges, found, strict=True):
        left = probabilities(MODEL, GRAPH, NODE, {edge, edge[::-1]})[target]
        assert score == pytest.approx(explanation.prediction[0] - float(left), abs=1e-6)


@pytest.mark.parametrize("method", ["banzhaf", "guided_backprop"])
def test_others_score_the_edges_that_there_are(method):
    _, found, explanation = explained(method)
    assert np.isfinite(found).all()
    assert np.ptp(found) > 0
    assert (explanation.scores[~explanation.present] == 0).all()


def test_a_method_for_images_refuses_a_graph():
    with pytest.raises(fans.InputError, match="Expected table or image inputs for method='lime', got graph inputs"):
        fans.Explainer(MODEL, GRAPH, method="lime")
