"""The lock: one process a directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.errors import DataDirectoryLocked
from milepost.storage.lock import FILE, DirectoryLock

HOLD = """
import sys
from pathlib import Path
from milepost.storage.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_second_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DataDirectoryLocked, match=f"{tmp_path} is in use by process {os.getpid()}"):
        DirectoryLock(tmp_path)
    lock.release()
    DirectoryLock(tmp_path).release()


def test_releasing_twice_is_releasing_once(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()
    DirectoryLock(tmp_path).release()


def test_another_process_is_refused_and_its_death_gives_the_lock_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(DataDirectoryLocked, match=f"process {holder.pid}"):
            DirectoryLock(tmp_path)
        holder.kill()
        holder.wait()
    DirectoryLock(tmp_path).release()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).release()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
