"""A browser for the tests of this folder."""

import shutil

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if BROWSER is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        with_browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-quic"])
        yield with_browser
        with_browser.close()
