"""Tables: rows of numbers and categories, dense or sparse."""

from typing import Any, ClassVar

from fans.errors import InputError, checked_names, texts
from fans.modalities.base import FeatureSpace, is_sparse, refuse_empty, shape_of
from fans.modalities.present import Presenter
from fans.modalities.registry import Modality
from fans.modalities.table.present import TablePresenter
from fans.modalities.table.space import Table, is_frame
from fans.modalities.table.sparse import SparseTable


class Tables(Modality):
    """Frames, arrays `(samples, columns)`, and sparse rows."""

    name: ClassVar[str] = "table"
    rank: ClassVar[int] = 40
    spaces: ClassVar[tuple[type[FeatureSpace], ...]] = (Table, SparseTable)
    presenter: ClassVar[Presenter] = TablePresenter()

    @classmethod
    def recognise(cls, background: Any, unit: Any = None) -> FeatureSpace | None:  # noqa: ARG003
        """Take sparse rows, frames, and what has two dimensions."""
        if is_sparse(background):
            return SparseTable()
        refuse_empty(background)
        return Table() if len(shape_of(background, "background")) == 2 else None

    @classmethod
    def with_names(cls, background: Any, names: Any) -> FeatureSpace | None:
        """Name the columns of an array or of sparse rows; a frame's own names stand."""
        if is_frame(background):
            if texts(names) != texts(background.columns):
                raise InputError(
                    "Expected no `feature_names` for a frame but those of its columns, got others; rename these: "
                    "background.set_axis(feature_names, axis=1)"
                )
            return None
        if is_sparse(background):
            return SparseTable(columns=names)
        n_columns = shape_of(background, "background")[1]
        return Table(columns=checked_names("feature_names", names, n_columns, "column of the background"))
