"""Graphs in words, pictures and pages."""

from typing import Any, ClassVar

from fans.explanation import Attribution, Explanation
from fans.modalities.graph import scene
from fans.modalities.graph.figures import plot
from fans.modalities.graph.page import STYLE, drawn, script
from fans.modalities.present import Presenter
from fans.modalities.table.present import TablePresenter, node_title
from fans.types import Array


class GraphPresenter(Presenter):
    """Edges, called by the nodes they join, and drawings of the graphs around them."""

    names_kind: ClassVar[bool] = True
    style: ClassVar[str] = STYLE

    @property
    def script(self) -> str:  # type: ignore[override]
        """Of pages: nodes can be moved."""
        return script()

    def feature_word(self, e: Attribution) -> str:  # noqa: ARG002
        """Return "edge"."""
        return "edge"

    def name(self, e: Attribution, i: int, feature: int) -> str:
        """Return the nodes that an edge joins, with an arrow where it runs one way alone."""
        assert e.edges is not None
        joined = {(int(u), int(v)) for u, v in e.edges[i][e.elements[i] == feature] if u >= 0}
        if not joined:
            return e.feature_names[feature]
        u, v = min(joined)
        return f"{e.node_name(u)} {'-' if (v, u) in joined else '->'} {e.node_name(v)}"

    def title(self, e: Attribution, i: int) -> str:
        """Return the explained node by its name, or the graph by its id."""
        return node_title(e, i)

    def plot(self, e: Explanation, top: int, columns: int | None) -> Any:  # noqa: ARG002
        """Return a drawing of each graph."""
        return plot(e, columns or 3)

    def scene_data(self, e: Explanation, i: int) -> dict[str, Any]:
        """Return nodes with places, and the edges between them."""
        return scene.scene(e, i)

    def trial_data(self, e: Explanation, before: Array, after: Array, given: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return which edges were taken out."""
        return scene.trial(e, before, after)

    def page_body(self, e: Explanation, i: int, shown: int, top: int) -> str:
        """Return a drawing above the table of edges."""
        return drawn(e, i) + super().page_body(e, i, shown, top)


class NodePresenter(TablePresenter):
    """Nodes, called by their names or numbers."""

    input_words: ClassVar[tuple[str, str]] = Presenter.input_words
    column_words: ClassVar[tuple[str, str] | None] = ("node", "nodes")
    has_categories: ClassVar[bool] = False

    def feature_word(self, e: Attribution) -> str:  # noqa: ARG002
        """Return "node"."""
        return "node"

    def value(self, e: Attribution, i: int, feature: int) -> str:
        """Return how far the node is from the explained one; nothing of a graph as a whole."""
        if not e.present[i, feature]:
            return "absent"
        hops = e.details["hops"][i].get(str(feature)) if "hops" in e.details else None
        return "" if hops is None else "itself" if not hops else f"{hops} hop{'s' if hops > 1 else ''} away"
