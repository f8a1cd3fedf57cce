"""The bundled slices stand in for the full datasets."""

from collections.abc import Iterator

import pytest

from fans.datasets import load_slice
from fans.studies import heatmap, images


@pytest.fixture
def bundled(monkeypatch) -> Iterator[None]:
    """Have studies of images read the bundled slices."""
    for module in (images, heatmap):
        monkeypatch.setattr(module, "load_images", load_slice)
    monkeypatch.setattr(images, "check_data", lambda _: None)
    images.subject.cache_clear()
    yield
    images.subject.cache_clear()
