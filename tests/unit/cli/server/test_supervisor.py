from __future__ import annotations

import socket
import threading

import pytest

from milepost.cli.server.supervisor import (
    PAUSE_MAX_S,
    PAUSE_S,
    PORT_PATIENCE_S,
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
