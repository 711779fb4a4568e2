"""The client that people import: made without a socket, light to load, and complete."""

from __future__ import annotations

import subprocess
import sys

import pytest

import milepost.admin
from milepost.admin import Admin
from milepost.errors import InvalidInput


def test_it_is_made_without_asking_anybody() -> None:
    with Admin("http://no.such.host.invalid:1"):
        pass
    with pytest.raises(InvalidInput, match="expected http://host:port"):
        Admin("pulsar://localhost:6650")


def test_it_loads_the_standard_library_and_positions() -> None:
    script = (
        "import sys, milepost.admin\n"
        "heavy = ('asyncio', 'ssl', 'fastapi', 'google', 'click', 'milepost.broker', 'milepost.wire')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    # http.client loads ssl by itself.
    assert done.stdout.strip() in ("[]", "['ssl']")


def test_what_is_promised_is_there() -> None:
    for name in milepost.admin.__all__:
        assert getattr(milepost.admin, name) is not None
