"""Every failure is one printable line and a code that scripts may rely on."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from milepost import errors
from milepost.cli.exits import CommandFailed, Exit, explain

README = Path(__file__).parents[3] / "README.md"


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (errors.InvalidSetting("m.toml:1: port = 'x'"), "m.toml:1: port = 'x'", Exit.USAGE),
        (errors.TopicNotFound("topic a"), "topic a", Exit.NOT_FOUND),
        (
            errors.DataDirectoryLocked("data directory d is in use by process 7"),
            "data directory d is in use by process 7; stop it, or choose another --data",
            Exit.CONFLICT,
        ),
        (
            errors.UnknownFormat("journal/1: format 9, this release knows 1"),
            "journal/1: format 9, this release knows 1; nothing was touched: run the version that "
            "wrote it, or a newer one",
            Exit.DATA,
        ),
        (errors.WrongBucket("the bucket has 8 shards"), "the bucket has 8 shards", Exit.CONFLICT),
        (errors.DiskFull("x"), "x; free some space and start again", Exit.STORAGE),
        (PermissionError(13, "Permission denied", "d"), "d: Permission denied", Exit.STORAGE),
        (OSError(5, "Input/output error"), "Input/output error", Exit.STORAGE),
        (
            TimeoutError("timed out"),
            "timed out; look whether the broker is well: `milepost brokers healthcheck`",
            Exit.CONNECT,
        ),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "Connection reset by peer",
            Exit.CONNECT,
        ),
        (CommandFailed("no", Exit.CONNECT), "no", Exit.CONNECT),
        (
            errors.BrokerError("no credentials", 3),
            "no credentials; say who you are with --token or a context",
            Exit.AUTH,
        ),
        (errors.BrokerError("x", 4), "x; ask an administrator for the right", Exit.AUTH),
        (errors.BrokerError("x", 99), "x", Exit.FAILED),
        (errors.ProducerBusy("x"), "x", Exit.CONFLICT),
        (errors.MessageTooBig("x"), "x; --chunking cuts it into chunks", Exit.USAGE),
    ],
)
def test_a_failure_is_explained(error: Exception, line: str, code: Exit) -> None:
    assert explain(error) == (line, code)


def test_what_nobody_foresaw_is_called_a_bug() -> None:
    line, code = explain(KeyError("topic"))
    assert line.startswith("a bug in Milepost: KeyError: 'topic'; ")
    assert code is Exit.FAILED


def test_a_line_stays_a_line() -> None:
    line, _ = explain(errors.InvalidInput("a\nb\x1b[31m\r"))
    assert line == "a b\\x1b[31m\\x0d"


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.CorruptData | errors.PersistenceError | errors.InvalidInput)
    ],
)
def test_kinds_of_errors_share_their_code(kind: type[errors.MilepostError]) -> None:
    expected = {
        errors.CorruptData: Exit.DATA,
        errors.PersistenceError: Exit.STORAGE,
        errors.InvalidInput: Exit.USAGE,
    }
    (code,) = [code for base, code in expected.items() if issubclass(kind, base)]
    if issubclass(kind, errors.NotFound):
        code = Exit.NOT_FOUND
    assert explain(kind("x"))[1] is code


def test_the_readme_has_every_code() -> None:
    rows = re.findall(r"^\| ([0-9, ]+) \| ", README.read_text("utf-8"), re.MULTILINE)
    assert [int(code) for row in rows for code in row.split(",")] == list(Exit)


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("connection refused", "start a broker with `milepost serve`, or name another with --url"),
        ("TLS: self-signed certificate in certificate chain", "--tls-trust-cert-path"),
        ("TLS: Hostname mismatch, certificate is not valid for 'x'", "the host as it does"),
        ("tlsv13 alert certificate required", "--tls-cert and --tls-key"),
        ("TLS: WRONG_VERSION_NUMBER", "that port may be one without TLS: look at --url"),
        ("the connection was closed during the TLS handshake", "one without TLS"),
        ("the connection was closed before an answer", "may want TLS, or be another one"),
    ],
)
def test_what_to_do_about_a_broker_depends_on_what_is_wrong(said: str, step: str) -> None:
    """A broker that runs, and is not trusted or speaks something else, need not be started."""
    line, code = explain(errors.ConnectError(said))
    assert code is Exit.CONNECT
    assert line.startswith(f"{said}; ")
    assert step in line
    assert ("milepost serve" in line) is (said == "connection refused")
