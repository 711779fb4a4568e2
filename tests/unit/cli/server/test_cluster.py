"""`milepost serve --shards`: a bucket or directory that does not fit is refused, in one line."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from stage.s3 import S3Server

from milepost.broker.settings.settings import Settings
from milepost.cli.exits import Exit
from milepost.cli.server.cluster import Host, refuse
from milepost.storage.bucket.manifest import first_manifest
from milepost.storage.cluster.document import ClusterDocument
from milepost.storage.lock import DirectoryLock

SERVE = [sys.executable, "-m", "milepost.cli.main", "serve", "--port", "0", "--http-port", "0"]
DOCUMENT = ClusterDocument("standalone", 8, "00" * 32).encode()


def serve(tmp_path: Path, *options: str) -> tuple[int, str]:
    """The exit code of a start, and the last line that it wrote."""
    code, line, _ = ended(tmp_path, *options)
    return code, line


def ended(tmp_path: Path, *options: str) -> tuple[int, str, str]:
    """The exit code of a start, the last line that it wrote, and all of them."""
    command = [*SERVE, "--bucket", (tmp_path / "bucket").as_uri()]
    command += ["--data", str(tmp_path / "data"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, done.stderr.splitlines()[-1], done.stderr


@pytest.mark.parametrize(
    ("key", "data", "options", "says"),
    [
        ("cluster", DOCUMENT, ["--shards", "4"], "the bucket has 8 shards, not 4: start with"),
        ("cluster", DOCUMENT, [], "is served by a cluster of brokers: start with --shards auto"),
        (
            "manifest",
            first_manifest("standalone", "b", "00").encode(),
            ["--shards", "4"],
            "the bucket holds the data of one broker: start without --shards",
        ),
    ],
)
def test_a_bucket_of_another_kind_is_refused(
    tmp_path: Path, key: str, data: bytes, options: list[str], says: str
) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / key).write_bytes(data)
    code, line = serve(tmp_path, *options)
    assert code == Exit.CONFLICT
    assert says in line
    assert line.startswith("milepost: ")


def denied(method: str, path: str) -> tuple[int, str] | None:
    return (403, "AccessDenied") if method != "GET" else None


def unlisted(method: str, path: str) -> tuple[int, str] | None:
    return (403, "AccessDenied") if "list-type" in path else None


def nowhere(method: str, path: str) -> tuple[int, str] | None:
    return 404, "NoSuchBucket"


def skewed(method: str, path: str) -> tuple[int, str] | None:
    return 403, "RequestTimeTooSkewed"


@pytest.mark.parametrize("options", [["--shards", "4"], []], ids=["cluster", "alone"])
@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (denied, "look at the credentials, and at what they permit"),
        (unlisted, "look at the credentials, and at what they permit"),
        (nowhere, "there is no such bucket: make it, or look at its name"),
        (skewed, "the store finds this machine's clock wrong: set it"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_refused_in_one_line_that_says_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusal: Callable[[str, str], tuple[int, str] | None],
    says: str,
    options: list[str],
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with S3Server() as store:
        store.refusal = refusal
        there = ["--bucket", "s3://bucket/prefix", "--set", f"bucket_endpoint={store.url}"]
        code, line, said = ended(tmp_path, *there, *options)
    assert code == Exit.STORAGE
    assert line.startswith("milepost: s3://bucket/prefix: ")
    assert line.endswith(says) or f"; {says}" in line
    assert said.count("\n") == 1
    assert not store.objects or refusal is unlisted


@pytest.mark.parametrize("options", [["--shards", "4"], []], ids=["cluster", "alone"])
def test_a_start_that_waits_for_its_bucket_is_ended_by_one_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """The store is well when it is tried out, and then does not say what is in it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    asked = threading.Event()

    def silent(method: str, path: str) -> tuple[int, str] | None:
        if not path.endswith("/cluster"):
            return None
        asked.set()
        return 503, "SlowDown"

    with S3Server() as store:
        store.refusal = silent
        command = [*SERVE, "--bucket", "s3://bucket/prefix", "--data", str(tmp_path / "data")]
        command += ["--set", f"bucket_endpoint={store.url}", *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
            try:
                assert asked.wait(60)
                broker.send_signal(signal.SIGTERM)
                assert broker.wait(8) == Exit.OK  # `shutdown_timeout_s` is more
            finally:
                broker.kill()


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems do not tell the processes of one"
)
def test_an_agent_that_waits_for_its_bucket_ends_with_the_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep the data directory and the ports for as long as the store does not answer."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    asked = threading.Event()

    def silent(method: str, path: str) -> tuple[int, str] | None:
        if not path.endswith("/cluster"):
            return None
        asked.set()
        return 503, "SlowDown"

    with S3Server() as store:
        store.refusal = silent
        command = [*SERVE, "--bucket", "s3://bucket/prefix", "--data", str(tmp_path / "data")]
        command += ["--set", f"bucket_endpoint={store.url}", "--shards", "4"]
        with subprocess.Popen(command) as broker:
            try:
                assert asked.wait(60)
                (agent,) = (
                    Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
                )
            finally:
                broker.kill()
        deadline = time.monotonic() + 60
        try:
            while Path(f"/proc/{agent}").exists():
                assert time.monotonic() < deadline, "it goes on waiting"
                time.sleep(0.05)  # sleep: between two looks
        except AssertionError:
            os.kill(int(agent), signal.SIGKILL)
            raise
        DirectoryLock(tmp_path / "data").release()


def test_a_start_that_is_refused_has_not_loaded_what_serves_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is most of the time of a start: seconds on a small machine."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "cluster").write_bytes(DOCUMENT)
    code, _, said = ended(tmp_path, "--shards", "4")
    assert code == Exit.CONFLICT
    assert "milepost.storage.cluster.hail" in said
    assert "milepost.rest.app" not in said


def test_a_directory_with_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "catalog.sqlite").touch()
    code, line = serve(tmp_path, "--shards", "4")
    assert code == Exit.CONFLICT
    assert "holds the data of a broker without a bucket" in line


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems cannot stop a socket's listening"
)
def test_a_port_without_a_process_refuses_connections_until_one_listens_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        socket.create_connection(address).close()
        refuse([listening])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        refuse([listening])
        assert listening.getsockname() == address
        listening.listen()
        socket.create_connection(address).close()
    with socket.create_server(address) as listening:  # a port that was chosen
        refuse([listening])
        listening.listen()
        socket.create_connection(address).close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems cannot stop a socket's listening"
)
@pytest.mark.parametrize("times", [0, 1, 2, 3])
@pytest.mark.parametrize("has_listened", [True, False])
def test_a_connection_is_not_at_its_end_however_often_the_port_was_refused_before(
    times: int, has_listened: bool
) -> None:
    """A process that ends before it listens, as one whose shard another broker keeps, has it refused."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if has_listened:
            listening.listen()
        for _ in range(times):
            refuse([listening])
        listening.listen()
        with socket.create_connection(listening.getsockname()) as client:
            accepted, _ = listening.accept()
            with accepted:
                accepted.setblocking(False)
                with pytest.raises(BlockingIOError):  # it has not said anything yet
                    accepted.recv(1)
                client.sendall(b"x")
                accepted.settimeout(10)
                assert accepted.recv(1) == b"x"


def test_a_shard_for_which_there_is_no_room_is_told_of_and_the_agent_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without this the first process ended, and all that it served with it."""

    def no_room() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    host = Host(Settings(data=tmp_path, port=0, http_port=0, bucket=tmp_path.as_uri()), None)
    monkeypatch.setattr(os, "fork", no_room)
    ours, theirs = socket.socketpair()
    with ExitStack() as held:
        for sock in (ours, theirs, *host._clients, *host._http, *host._hail):
            held.enter_context(sock)
        host._agent = ours
        before = len(os.listdir("/proc/self/fd"))
        assert not host._start(1, 0)
        assert theirs.recv(100) == b'{"ended": 1}\n'
        assert not host._workers
        with pytest.raises(BlockingIOError):  # before it has joined: the start is refused
            host._fork(lambda parent: None)
        host._count = 4
        assert not host._fork(lambda parent: None)
        assert not host._agent_pid
        assert host._agent_due_s > time.monotonic()
        assert len(os.listdir("/proc/self/fd")) == before
    assert "shard 1 cannot be started: Resource temporarily unavailable" in caplog.text
