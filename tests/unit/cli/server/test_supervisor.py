from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.broker.settings.settings import Settings
from milepost.cli.exits import Exit
from milepost.cli.server.supervisor import (
    PAUSE_MAX_S,
    PAUSE_S,
    PORT_PATIENCE_S,
    Ports,
    Supervisor,
    bound,
    pause_after,
    port_of,
)


def test_a_worker_that_dies_again_is_started_later_each_time() -> None:
    assert [pause_after(failures) for failures in range(4)] == [
        PAUSE_S,
        PAUSE_S,
        2 * PAUSE_S,
        4 * PAUSE_S,
    ]
    assert pause_after(8) == PAUSE_MAX_S


def test_a_worker_may_die_for_days() -> None:
    """No number of failures is too many: the others' supervisor lives on."""
    assert pause_after(10**6) == PAUSE_MAX_S


def test_a_port_that_is_freed_in_a_moment_is_waited_for() -> None:
    """As of workers that were killed, and whose ports the system still closes."""
    before = socket.create_server(("127.0.0.1", 0))
    port = before.getsockname()[1]
    closing = threading.Timer(PORT_PATIENCE_S / 4, before.close)
    closing.start()
    sockets = bound("127.0.0.1", port)
    closing.join()
    assert port_of(sockets) == port
    for one in sockets:
        one.close()


def test_a_port_that_stays_in_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as before:
        monkeypatch.setattr("milepost.cli.server.supervisor.PORT_PATIENCE_S", 0.1)
        with pytest.raises(OSError, match="in use"):
            bound("127.0.0.1", before.getsockname()[1])


def no_room() -> int:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    settings = Settings(data=tmp_path, port=0, http_port=0)
    ports = Ports(settings, 2)
    yield Supervisor(settings, ports, None)
    for sock in (
        *ports.clients,
        *ports.http,
        *ports.link,
        *(one for own in ports.own for one in own),
    ):
        sock.close()


def test_a_worker_for_which_there_is_no_room_is_started_later_and_the_others_go_on(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without this the supervisor ended, and all workers with it."""
    worker = supervisor._workers[1]  # no process is made of it
    supervisor._is_announced = True
    monkeypatch.setattr(os, "fork", no_room)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    descriptors = len(os.listdir("/proc/self/fd"))
    for failures in (1, 2):
        assert not supervisor._start(worker)
        assert (worker.pid, worker.failures) == (0, failures)
        assert worker.due_s is not None
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert "worker 1 cannot be started: Resource temporarily unavailable; it is st" in caplog.text


def test_a_first_start_for_which_there_is_no_room_is_refused(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fork", no_room)
    assert supervisor.run() == Exit.FAILED
