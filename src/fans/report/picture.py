"""A figure of matplotlib that a notebook shows by itself."""

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that pyplot knows nothing of, so that it is shown once, where it is returned, and freed when let go.

    A notebook shows it with or without `%matplotlib inline`.
    """

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=110)
        return out.getvalue()
