"""The explorer: a local page on which features are clicked in and out, and keep, change and both are seen at once."""

from fans.serve.running import Served, serve
from fans.serve.source import InMemory, Source

__all__ = ["InMemory", "Served", "Source", "serve"]
