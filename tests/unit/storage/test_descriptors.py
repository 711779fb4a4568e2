"""Descriptors for files, when connections have taken all others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.storage.descriptors import SpareDescriptors

FLOOD = """
import os, resource, sys
from milepost.storage.descriptors import SPARE, raise_limit
from milepost.storage.files import RealFiles
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
assert raise_limit() == 128 == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
SPARE.hold(4)
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
files = RealFiles(sys.argv[1])
held = [files.create(name) for name in "abc"]
assert SPARE.count == 1, SPARE.count
try:
    held += [files.create("d"), files.create("e")]
except OSError as error:
    print(error.strerror)
for one in [*held, *map(os.close, taken)]:
    one and one.close()
files.create("f").close()
assert SPARE.count == 4, "they are taken back"
"""


def test_a_file_is_opened_when_connections_have_taken_all_descriptors(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FLOOD, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("Too many open files\n", "")
    assert {path.name for path in tmp_path.iterdir()} == set("abcdf")


def test_other_errors_are_told_as_they_are(tmp_path: Path) -> None:
    spare = SpareDescriptors()
    spare.hold(2)
    with pytest.raises(FileNotFoundError):
        spare.open(str(tmp_path / "none"), os.O_RDONLY)
    assert spare.count == 2
    spare.hold(0)
    assert spare.count == 0
