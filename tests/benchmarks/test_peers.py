"""Peers that a program runs: found, missing, stopped."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from bench import peers

PROGRAM = """\
#!{python}
import os, signal, sys
if sys.argv[1] == "jars":
    print("/jars")
elif "kafka" in sys.argv:
    sys.exit("peer: not available: no java here")
else:
    print("booting", flush=True)
    print("ready 0.1 pid", os.getpid(), flush=True)
    signal.pause()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "peer"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv(peers.PROGRAM_NAME, str(path))
    return path


def test_a_peer_runs_as_long_as_it_is_wanted(program: Path) -> None:
    with peers.running("pulsar") as peer:
        assert peer.pid is not None
        os.kill(peer.pid, 0)
        assert peer.port != peer.second_port
    with pytest.raises(ProcessLookupError):
        os.kill(peer.pid, 0)


def test_a_peer_does_not_outlive_a_benchmark_that_is_killed(program: Path) -> None:
    code = "from bench import peers\nwith peers.running('pulsar') as p: print(p.pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(peers.__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as benchmark:
        assert benchmark.stdout is not None
        pid = int(benchmark.stdout.readline())
        peer = os.pidfd_open(pid)
        benchmark.kill()
    ended, _, _ = select.select([peer], [], [], 30)
    os.close(peer)
    assert ended, "the peer still runs"


def test_a_peer_that_does_not_start_says_why(program: Path) -> None:
    with pytest.raises(peers.Unavailable, match="no java here"), peers.running("kafka"):
        pass


def test_without_a_program_there_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(peers.PROGRAM_NAME, raising=False)
    with pytest.raises(peers.Unavailable, match="MILEPOST_PEER"), peers.running("pulsar"):
        pass
    with pytest.raises(peers.Unavailable, match="MILEPOST_PEER"):
        peers.jars("kafka")


def test_a_program_that_is_not_there_is_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(peers.PROGRAM_NAME, "/nowhere/peer")
    with pytest.raises(peers.Unavailable), peers.running("pulsar"):
        pass


def test_jars_are_where_the_program_says(program: Path) -> None:
    assert peers.jars("kafka") == "/jars"
