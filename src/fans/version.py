"""The version, alone in a file that imports nothing, so that building needs no dependency."""

__version__ = "0.1.0"
