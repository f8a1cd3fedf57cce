"""For the API's pages: griffe knows a docstring's "Examples:"; ours say "Example:", as they have one."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Have examples shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
