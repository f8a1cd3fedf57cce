"""A reader of pages that checks that tags close in order."""

import re
from html.parser import HTMLParser


class Balanced(HTMLParser):
    """Checks that tags close in order; keeps the sources of images, and anything else that is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.alternatives: list[str] = []
        self.words: list[str] = []

    @property
    def text(self) -> str:
        """What a reader sees, aside from pictures."""
        return re.sub(r"\s+", " ", "".join(self.words))

    def handle_startendtag(self, tag, attrs):
        pass  # parts of a drawing

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert not {"href", "srcset"} & set(given)
        if tag == "img":
            self.sources.append(given["src"])
            self.alternatives.append(given["alt"])
        elif tag != "meta":
            self.open.append(tag)

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.words.append(data)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text: str) -> Balanced:
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser
