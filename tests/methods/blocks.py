"""What methods are handed of some inputs, made by hand."""

from fans.engine.inputs import Part
from fans.explainer import _Inputs


def inputs_of(explainer, rows, target=None, **how):
    """The inputs of an explainer's own row layout, by their places; `.block(slice).block` is what a method takes."""
    task, places = explainer.task, list(range(len(rows)))
    classes = None if target is None else task.targets(target, task.outputs[:1].expand(len(rows), -1))
    return _Inputs(explainer, Part(task, rows, classes, list(places), places), **how)
