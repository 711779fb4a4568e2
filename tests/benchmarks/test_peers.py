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


def a_program(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(f"#!{sys.executable}\nimport os, signal, sys\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv(peers.PROGRAM_NAME, str(path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "pulsar did not start"),
        ("signal.pause()", "pulsar was not ready within 1 s"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()", "was not ready within"),
        ("os.write(1, bytes([255, 10])); os.write(2, bytes([255]))", "\ufffd"),
        ("print('ready 1 pid', flush=True); signal.pause()", "names no process: 'ready 1 pid'"),
        ("print('ready 1 pid x', flush=True); signal.pause()", "names no process"),
    ],
    ids=["silent", "hangs", "hangs and stays", "no text", "ends short", "no number"],
)
def test_a_program_that_does_not_do_what_it_should_says_so(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of it is left."""
    monkeypatch.setattr(peers, "READY_TIMEOUT_S", 1)
    monkeypatch.setattr(peers, "STOP_TIMEOUT_S", 1)
    kept = tmp_path / "pid"
    keep = f"open({str(kept)!r}, 'w').write(str(os.getpid()))"
    a_program(tmp_path / "peer", f"{keep}\n{text}", monkeypatch)
    with pytest.raises(peers.Unavailable, match=told), peers.running("pulsar"):
        pass
    if kept.exists() and kept.read_text():
        with pytest.raises(ProcessLookupError):
            os.kill(int(kept.read_text()), 0)


def test_a_program_may_go_on_printing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe holds; it says on a file that it got rid of all of it."""
    done = tmp_path / "done"
    os.mkfifo(done)
    a_program(
        tmp_path / "peer",
        "print('ready 1 pid', os.getpid(), flush=True)\n"
        "print('x' * 1_000_000, flush=True)\n"
        f"open({str(done)!r}, 'w').write('done')\n"
        "signal.pause()",
        monkeypatch,
    )
    with peers.running("pulsar"):
        told = os.open(done, os.O_RDONLY | os.O_NONBLOCK)
        ready, _, _ = select.select([told], [], [], 30)
        assert ready
        assert os.read(told, 4) == b"done"
        os.close(told)
