"""The lock: one process a directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.errors import DataDirectoryLocked
from milepost.storage.lock import FILE, DirectoryLock, is_owner_gone

HOLD = """
import sys
from pathlib import Path
from milepost.storage.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""

# Its child holds the lock when it has ended itself.
LEAVE = """
import os, sys
from pathlib import Path
from milepost.storage.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
if os.fork():
    os.wait()
print("locked", flush=True)
sys.stdin.read()
lock.release()  # before its output ends
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


def test_of_a_lock_that_a_child_holds_the_owner_may_be_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"locked\n"
        assert not is_owner_gone(tmp_path)
        owner.kill()
        owner.wait()
        with pytest.raises(DataDirectoryLocked, match=f"process {owner.pid}"):
            DirectoryLock(tmp_path)
        assert is_owner_gone(tmp_path)
        owner.stdin.close()
        assert owner.stdout.read() == b""  # the child has ended
    DirectoryLock(tmp_path).release()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).release()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
