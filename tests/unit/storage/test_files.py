"""The machine's own files, where the double of `milepost.testing` cannot stand in for them.

What both must do alike is tested in tests/unit/testing/test_files.py, against both.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from milepost.storage.files import BUFFERS_PER_WRITE_MAX, RealFiles


@pytest.fixture
def files(tmp_path: Path) -> RealFiles:
    return RealFiles(tmp_path)


def test_a_read_that_the_kernel_cuts_short_goes_on(
    files: RealFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call gives 2 GiB at most: a large journal must not look torn."""
    file = files.create("a")
    file.append([bytes(range(100))])
    file.close()
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 7), offset))
    assert files.read("a", 3, 50) == bytes(range(3, 53))
    assert files.read("a", 90, 50) == bytes(range(90, 100))
    assert files.read("a", 100, 5) == b""


def test_a_write_that_the_kernel_cuts_short_goes_on(
    files: RealFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwritev, pwrite = os.pwritev, os.pwrite

    def some(fd: int, buffers: Sequence[bytes], offset: int) -> int:
        return pwritev(fd, [b"".join(buffers)[:5]], offset)

    monkeypatch.setattr(os, "pwritev", some)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:3], offset))
    file = files.create("a")
    file.append([b"one", memoryview(b"two"), bytearray(b"three")])
    file.append([b"!"] * (BUFFERS_PER_WRITE_MAX + 10))
    assert file.size == 11 + BUFFERS_PER_WRITE_MAX + 10
    assert files.read("a", 0, 13) == b"onetwothree!!"
    assert files.size("a") == file.size
    file.close()


def test_files_and_folders_belong_to_their_owner_alone(files: RealFiles, tmp_path: Path) -> None:
    files.make_folder("f/g")
    files.create("f/g/a").close()
    assert (tmp_path / "f/g").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "f/g/a").stat().st_mode & 0o777 == 0o600


def test_links_are_not_followed(files: RealFiles, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        files.read("link", 0, 6)
    with pytest.raises(OSError, match="symbolic links"):
        files.open_append("link", 0)
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_a_full_disk_is_an_os_error(files: RealFiles) -> None:
    device = RealFiles("/dev")
    if not device.exists("full"):
        pytest.skip("no /dev/full here")
    file = device.open_append("full", 0)
    with pytest.raises(OSError, match="No space left"):
        file.append([b"x"])
    file.close()
