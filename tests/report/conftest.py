"""An explanation of a table that tests of words, pictures and pages look at."""

import pytest

import fans
from tests.report.made import table


@pytest.fixture(scope="module")
def e() -> fans.Explanation:
    return table()
