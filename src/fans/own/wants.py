"""What a model says of the inputs that it takes: where models and data meet."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wants:
    """What is known of a model's inputs; None where it does not say.

    Attributes:
        columns: names of a table's columns, in order.
        n_columns: how many they are.
        frame: whether rows come as a frame with names, or as a plain array where all are numbers.
        categories: whether words come as pandas categories.
        channels, height, width: of pictures.
        channels_last: whether pictures come as `(n, H, W, C)`.
    """

    columns: tuple[str, ...] | None = None
    n_columns: int | None = None
    frame: bool = True
    categories: bool = False
    channels: int | None = None
    height: int | None = None
    width: int | None = None
    channels_last: bool = False
