"""The broker's process: an address that cannot be had is told with the flag that changes it.

What the process does when it runs is in tests/e2e/test_serve.py.
"""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from milepost.broker.settings import Settings
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.process import _listening


def start(error: OSError | None, name: str = "port") -> str:
    async def starting() -> str:
        if error is not None:
            raise error
        return "up"

    return asyncio.run(_listening(Settings(port=80, http_port=81), name, starting()))


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
    ],
)
def test_an_address_that_cannot_be_had(error: OSError, name: str, line: str, code: Exit) -> None:
    with pytest.raises(CommandFailed) as caught:
        start(error, name)
    assert (str(caught.value), caught.value.code) == (line, code)


def test_a_file_that_may_not_be_opened_is_not_a_port() -> None:
    with pytest.raises(PermissionError):
        start(PermissionError(errno.EACCES, "denied", "data/lock"))
