"""Names of types that many modules share."""

from typing import Any, Literal

import numpy.typing as npt

Array = npt.NDArray[Any]


Kind = Literal["probability", "output"]
