"""Memory that is kept: only for who asks, and then for its children too."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from torch import nn

import fans

GLIBC = platform.libc_ver()[0] == "glibc"

FAULTS = """
import resource, sys, torch
import fans
if "keep" in sys.argv:
    assert fans.keep_freed_memory()
def explain(asked):
    import numpy as np
    if asked == "yes":
        fans.Explainer(lambda x: x[:, 0], np.eye(3))
def batch():
    parts = [torch.ones(5 * 2**20) for _ in range(2 if "shown" in sys.argv else 5)]
if "shown" in sys.argv:
    explain(*sys.argv[2:])
batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""Ten times a hundred MiB are 256,000 pages."""


def faults(*arguments: str, **environment: str) -> int:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", FAULTS, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")} | environment,
    )
    return int(done.stdout)


@pytest.mark.skipif(not GLIBC, reason="only glibc is told to keep memory")
def test_memory_that_batches_free_is_kept():
    assert faults("keep") < 20_000


@pytest.mark.skipif(not GLIBC, reason="only glibc learns from what is freed")
def test_batches_up_to_64_mib_are_kept_once_something_was_explained():
    """Ten times two blocks of 20 MiB are 102,400 pages."""
    assert faults("shown", "yes") < 20_000


def test_nobody_keeps_memory_who_was_not_asked(monkeypatch):
    monkeypatch.setattr("fans.memory.ctypes.CDLL", lambda _: pytest.fail("the C library was asked"))
    rows = np.random.default_rng(0).normal(size=(30, 3))
    fans.Explainer(nn.Linear(3, 2), rows.astype(np.float32))(rows[:1].astype(np.float32))


@pytest.mark.skipif(not GLIBC, reason="only glibc is told to keep memory")
def test_children_are_told_by_their_environment():
    code = "import os, fans; fans.keep_freed_memory(children=True); print(os.environ['MALLOC_MMAP_THRESHOLD_'], "
    code += "os.environ['MALLOC_TRIM_THRESHOLD_'])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()  # noqa: S603
    assert faults(MALLOC_MMAP_THRESHOLD_=told[0], MALLOC_TRIM_THRESHOLD_=told[1]) < 20_000
