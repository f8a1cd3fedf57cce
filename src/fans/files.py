"""Writing files whole or not at all."""

from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a reader never sees half of it, and a failure leaves what was there."""
    temporary = path.with_name(path.name + ".partial")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
