"""The pages on graph rivals say what the code does: every setting with its default."""

import ast
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

import fans.methods  # noqa: F401 - registers the methods
from fans.methods.base import Method

PAGES = sorted((Path(__file__).parents[2] / "docs" / "rivals").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_every_setting_with_its_default(page):
    text = page.read_text()
    member: Any = Method.registry[page.stem]
    told = {name: ast.literal_eval(value) for name, value in re.findall(r"(?m)^\| `(\w+)` \| (.+?) \|", text)}
    assert told == {f.name: f.default for f in fields(member) if f.default is not MISSING}
    assert member.citation.split(",")[0] in text
    assert all(name in text for name in (f'method="{page.stem}"', "**Objective.**", "**What differs.**", "**Held to**"))


def test_every_method_made_for_graphs_alone_has_one():
    assert {page.stem for page in PAGES} == {
        name for name, member in Method.registry.items() if getattr(member, "modalities", ()) == ("graph",)
    }
