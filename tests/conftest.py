"""One thread for torch: the tensors of tests are small, and threads waiting for each other cost more than they save."""

import os
import shutil

import pytest
import torch

torch.set_num_threads(1)


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser():
    """A browser, one for all tests: Playwright cannot be started twice."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if BROWSER is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        with_browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-quic"])
        yield with_browser
        with_browser.close()


@pytest.fixture
def full_data() -> None:
    """Ask for the full datasets: skip where `FANS_DATA` is not set; where it is, what is missing there fails."""
    if not os.environ.get("FANS_DATA"):
        pytest.skip("needs the full datasets: set FANS_DATA")


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """Set no `FANS_DATA`, and an empty cache, which is returned."""
    monkeypatch.delenv("FANS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fans"
