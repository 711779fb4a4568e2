"""Signs on the board: a process of this host that is no more is surely dead, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys

from milepost.storage.bucket.board import Sign


def test_a_sign_comes_back_and_other_bytes_are_none() -> None:
    sign = Sign("host", 7, 3)
    assert Sign.decode(sign.encode()) == sign
    for data in (b"", b"7", b"{}", b'{"host": "h"}', b"[" * 99999):
        assert Sign.decode(data) is None
    assert Sign.decode(sign._replace(pid="7").encode()) is None  # type: ignore[arg-type]
    assert not sign._replace(pid=1 << 70).is_surely_dead("host")


def test_only_a_process_of_this_host_that_ended_is_surely_dead() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert Sign("here", ended.pid, 1).is_surely_dead("here")
    assert not Sign("there", ended.pid, 1).is_surely_dead("here")
    assert not Sign("here", os.getppid(), 1).is_surely_dead("here")
    assert Sign("here", os.getpid(), 1).is_surely_dead("here"), "a container that began again"
