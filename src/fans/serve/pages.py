"""The page's own files, and the page of one input as a single file that needs no server."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

KINDS = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}

MODULES = ("dom.js", "figures.js", "scenes.js", "curve.js", "trials.js", "input.js")
"""What the page of one input is made of, in the order in which they build on each other."""

FILES = ("index.html", "style.css", *MODULES, "gallery.js", "main.js")


@cache
def static(name: str) -> str:
    """Return one of the page's files; only those are ever read."""
    if name not in FILES:
        raise KeyError(name)
    return files("fans.serve").joinpath("static", name).read_text(encoding="utf-8")


def exported(title: str, told: Mapping[str, Any]) -> str:
    """Return the page of one input as a file: what is told of it, the styles and the scripts inside.

    Nothing but these scripts can run in it, which their hashes in its content policy see to.
    """
    style, script = static("style.css"), bundle()
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(told, allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        '<body><main id="main"></main>'
        f'<script type="application/json" id="data">{data}</script><script>{script}</script></body></html>\n'
    )


@cache
def bundle() -> str:
    """Return the modules of one input's page as one script, their imports and exports taken away."""
    parts = []
    for name in MODULES:
        text = re.sub(r"^import .*?;\n", "", static(name), flags=re.MULTILINE | re.DOTALL)
        parts.append(re.sub(r"^export ", "", text, flags=re.MULTILINE))
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\nopenExported();\n})();\n"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
