"""Arrays of colours as PNG files, with nothing but the standard library."""

import base64
import struct
import zlib

import numpy as np

from fans.types import Array


def png(image: Array) -> bytes:
    """Return colours `(height, width, 3)` in [0, 1] as a PNG file."""
    pixels = np.round(np.clip(image, 0, 1) * 255).astype(np.uint8)
    height, width, _ = pixels.shape
    lines = np.diff(pixels.reshape(height, -1), axis=0, prepend=np.uint8(0))
    rows = np.pad(lines, ((0, 0), (1, 0)), constant_values=2)  # filter 2: each row is its difference to the one above
    parts = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    chunks = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts.items()]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def data_uri(image: Array) -> str:
    """Return an image as an address that holds all of it."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")
