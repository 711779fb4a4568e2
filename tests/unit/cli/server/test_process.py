"""The broker's process: an address that cannot be had is told with the flag that changes it.

What the process does when it runs is in tests/e2e/test_serve.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from pathlib import Path

import pytest

from milepost.broker.settings.settings import Settings
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.server.process import HURRY, Stop, _drain, announce_more, listening, tell_manager


def start(error: Exception | None, name: str = "port") -> str:
    ports = {"port": 80, "http_port": 81, "worker_port": 82}
    with listening("127.0.0.1", ports[name], name):
        if error is not None:
            raise error
    return "up"


def test_a_start_that_works_gives_its_result() -> None:
    assert start(None) == "up"


@pytest.mark.parametrize(
    ("error", "name", "line", "code"),
    [
        (
            OSError(errno.EADDRINUSE, "in use"),
            "http_port",
            "cannot listen on 127.0.0.1:81: the port is in use; stop what listens there, or choose "
            "another --http-port",
            Exit.CONFLICT,
        ),
        (
            OSError(errno.EADDRINUSE, "in use"),
            "worker_port",
            "cannot listen on 127.0.0.1:82: the port is in use; stop what listens there, or choose "
            "another worker_port",
            Exit.CONFLICT,
        ),
        (
            OSError(errno.EACCES, "denied"),
            "port",
            "cannot listen on 127.0.0.1:80: not permitted; choose a --port from 1024 up",
            Exit.USAGE,
        ),
        (
            OSError(errno.EADDRNOTAVAIL, "no"),
            "port",
            "cannot listen on 127.0.0.1:80: this machine does not have that address; choose "
            "another --host",
            Exit.USAGE,
        ),
        (
            socket.gaierror(socket.EAI_NONAME, "unknown"),
            "port",
            "cannot listen on 127.0.0.1:80: there is no such host; choose another --host",
            Exit.USAGE,
        ),
        (
            UnicodeError("label empty or too long"),
            "port",
            "cannot listen on 127.0.0.1:80: there is no such host; choose another --host",
            Exit.USAGE,
        ),
    ],
)
def test_an_address_that_cannot_be_had(error: Exception, name: str, line: str, code: Exit) -> None:
    with pytest.raises(CommandFailed) as caught:
        start(error, name)
    assert (str(caught.value), caught.value.code) == (line, code)


def test_a_file_that_may_not_be_opened_is_not_a_port() -> None:
    with pytest.raises(PermissionError):
        start(PermissionError(errno.EACCES, "denied", "data/lock"))


# Signals.


def test_the_first_signal_stops_and_the_next_hurries(caplog: pytest.LogCaptureFixture) -> None:
    async def signals() -> list[bool]:
        stop, seen = Stop(), []
        for _ in range(3):
            stop.signalled("SIGINT")
            seen += [stop.asked.is_set(), stop.hurried.is_set()]
        return seen

    with caplog.at_level("INFO"):
        assert asyncio.run(signals()) == [True, False, True, True, True, True]
    assert [record.getMessage() for record in caplog.records] == [
        "stopping",
        "not drained; the next start recovers",
    ]


def test_what_another_process_has_started_hurries_only_when_that_one_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def signals() -> list[bool]:
        stop = Stop(is_supervised=True)
        stop.listen()
        for _ in range(3):
            stop.signalled("SIGTERM")
        seen = [stop.asked.is_set(), stop.hurried.is_set()]
        os.kill(os.getpid(), HURRY)
        async with asyncio.timeout(10):
            await stop.hurried.wait()
        return seen

    with caplog.at_level("INFO"):
        assert asyncio.run(signals()) == [True, False]
    assert [record.getMessage() for record in caplog.records] == [
        "stopping",
        "not drained; the next start recovers",
    ]


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As nohup has it."""

    async def handlers() -> object:
        Stop().listen()
        return signal.getsignal(signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert asyncio.run(handlers()) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("timeout_s", "hurried", "line"),
    [(0.0, False, "not drained within 0 s; the next start recovers"), (60.0, True, None)],
)
def test_a_drain_that_is_cut_off(
    timeout_s: float, hurried: bool, line: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def draining() -> bool:
        hurry, was_cut = asyncio.Event(), False

        async def close() -> None:
            nonlocal was_cut
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cut = True
                raise

        if hurried:
            asyncio.get_running_loop().call_soon(hurry.set)
        await _drain(timeout_s, close(), hurry)
        return was_cut

    assert asyncio.run(draining())
    assert [record.getMessage() for record in caplog.records] == ([line] if line else [])


def test_a_drain_that_fails_says_so() -> None:
    async def close() -> None:
        raise OSError("the disk")

    async def draining() -> None:
        await _drain(60, close(), asyncio.Event())

    with pytest.raises(OSError, match="the disk"):
        asyncio.run(draining())


def test_a_service_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        tell_manager("READY=1")
        assert manager.recv(100) == b"READY=1"


def test_nobody_to_tell_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell_manager("READY=1")
    assert caplog.records == []
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    tell_manager("READY=1")
    assert "not told READY=1" in caplog.text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(), []),
        (Settings(host="0.0.0.0"), ["Lookups name localhost: for clients on other machines"]),
        (Settings(host="::"), ["Lookups name localhost: for clients on other machines"]),
        (Settings(host="0.0.0.0", advertised_address="broker-1"), []),
        (Settings(host="0.0.0.0", advertised_listeners="internal:pulsar://b:6650"), []),
    ],
)
def test_a_broker_that_is_open_to_all_says_which_name_it_tells(
    settings: Settings, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    announce_more(settings, "")
    lines = capsys.readouterr().out.splitlines()
    assert [line[: len(start)] for line, start in zip(lines, said, strict=True)] == said


def test_ports_of_rocketmq_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    announce_more(Settings(), "http://b:8080", {"clients": 8081, "mqadmin": -1})
    assert capsys.readouterr().out.splitlines() == [
        "Console: http://b:8080/console/",
        "RocketMQ: 127.0.0.1:8081 for clients",
    ]
