"""The command line when something is wrong: documented exit codes, one line, never a traceback."""

from __future__ import annotations

import base64
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving

USAGE, CONNECT, AUTH, NOT_FOUND, CONFLICT, INTERRUPTED, CLOSED_PIPE = 2, 3, 4, 5, 6, 130, 141
TIMEOUT_S = 60
SECRET = b"a secret of more than thirty-two bytes, surely"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    made = Serving(tmp_path_factory.mktemp("broker") / "data")
    yield made
    made.stop()


def environment(url: str | None = None, **more: str) -> dict[str, str]:
    found = {**ENVIRONMENT, "MILEPOST_CONTEXTS": os.devnull + "/none.json", **more}
    return {**found, "MILEPOST_ADMIN_URL": url} if url else found


def milepost(*args: str, url: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MILEPOST, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(url, **more),
        timeout=TIMEOUT_S,
        check=False,
    )


def the_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("milepost: ")
    assert "Traceback" not in done.stderr
    return done.stderr.removeprefix("milepost: ").rstrip("\n")


# Nobody there.

COMMANDS = [
    ["topics", "list", "public/default"],
    ["topics", "reset-cursor", "orders", "-s", "billing", "-m", "latest"],
    ["seek", "orders", "billing", "--to", "latest"],
    ["produce", "orders", "-m", "x"],
    ["consume", "orders", "-e"],
]


@pytest.mark.parametrize("args", COMMANDS, ids=[" ".join(args[:2]) for args in COMMANDS])
def test_a_broker_that_is_down(args: list[str]) -> None:
    line = the_line(milepost(*args, url="http://127.0.0.1:1"), CONNECT)
    assert "cannot reach http://127.0.0.1:1: connection refused: nothing listens there" in line
    assert "`milepost serve`" in line


@pytest.mark.parametrize("args", [["produce", "orders", "-m", "x"], ["perf", "consume", "orders"]])
def test_a_binary_port_that_is_closed(args: list[str]) -> None:
    line = the_line(milepost("--url", "pulsar://127.0.0.1:1", *args), CONNECT)
    assert "pulsar://127.0.0.1:1" in line


def test_a_host_that_is_not_known() -> None:
    line = the_line(milepost("tenants", "list", url="http://no.such.host.invalid:1"), CONNECT)
    assert "there is no such host" in line


def test_a_port_that_speaks_something_else(broker: Serving) -> None:
    line = the_line(
        milepost("tenants", "list", url=f"http://127.0.0.1:{broker.ready['port']}"), CONNECT
    )
    assert "cannot reach" in line


def test_tls_where_there_is_none(broker: Serving) -> None:
    url = broker.ready["http_url"].replace("http:", "https:")
    assert "TLS" in the_line(milepost("tenants", "list", url=url), CONNECT)


# Not permitted.


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    key = f"data:;base64,{base64.b64encode(SECRET).decode()}"
    settings = ("authentication=true", "authorization=true", f"token_secret_key={key}")
    made = Serving(
        tmp_path_factory.mktemp("guarded") / "data",
        *(f"--set={one}" for one in (*settings, "superuser_roles=boss")),
    )
    yield made
    made.stop()


def token(role: str, **claims: float) -> str:
    return jwt.encode({"sub": role, **claims}, SECRET, "HS256")


LIST = ["topics", "list", "public/default"]


@pytest.mark.parametrize(
    ("flags", "step"),
    [
        ([], "say who you are with --token or a context"),
        (["--token", "nonsense"], "get a new token"),
        (["--token", token("boss", exp=1.0)], "get a new token"),
        (["--token", token("guest")], "ask an administrator for the right"),
    ],
    ids=["none", "bad", "expired", "without the right"],
)
def test_credentials_that_do_not_do(guarded: Serving, flags: list[str], step: str) -> None:
    line = the_line(milepost(*LIST, *flags, url=guarded.ready["http_url"]), AUTH)
    assert line.startswith("topics list public/default: ")
    assert line.endswith(step)
    assert "nonsense" not in line


def test_the_messaging_commands_too(guarded: Serving) -> None:
    flags = ["--url", guarded.ready["pulsar_url"]]
    assert the_line(milepost(*flags, "produce", "orders", "-m", "x"), AUTH)


def test_credentials_that_do(guarded: Serving, tmp_path: Path) -> None:
    url = guarded.ready["http_url"]
    (tmp_path / "token").write_text(token("boss") + "\n", "utf-8")
    assert milepost(*LIST, "--token", token("boss"), url=url).returncode == 0
    assert milepost("--token-file", str(tmp_path / "token"), *LIST, url=url).returncode == 0
    assert milepost(*LIST, url=url, MILEPOST_TOKEN=token("boss")).returncode == 0
    done = milepost(
        "--token", token("boss"), "produce", "orders", "-m", "one coffee", "-I", url=url
    )
    assert done.returncode == 0, done.stderr
    done = milepost("--token", token("boss"), "consume", "orders", "-e", url=url)
    assert (done.returncode, done.stdout) == (0, "one coffee\n"), done.stderr


# Not there, taken, wrong.


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["topics", "stats", "nothing"], NOT_FOUND, "`milepost topics list public/default`"),
        (["topics", "unsubscribe", "nothing", "-s", "x"], NOT_FOUND, "nothing"),
        (["seek", "nothing", "x", "--to", "0"], NOT_FOUND, "nothing"),
        (["topics", "get-message-id-by-index", "-i", "-1", "nothing"], NOT_FOUND, "-1"),
        (["topics", "create", "a/b"], USAGE, "expected tenant/namespace/topic"),
        (["topics", "create-partitioned-topic", "-p", "0", "zero"], USAGE, "zero"),
        (["topics", "create-partitioned-topic", "-p", "x", "zero"], USAGE, "is not a whole number"),
        (["topics", "stats", "--frobnicate", "x"], USAGE, "No such option"),
        (["topics", "stats", "--get-precise-backlg", "x"], USAGE, "--get-precise-backlog"),
        (["topics", "stat", "x"], USAGE, "did you mean stats?"),
        (["topic"], USAGE, "did you mean topics?"),
        (["verify", "missing"], NOT_FOUND, "not a data directory"),
        (["--admin-url", "localhost:8080", "tenants", "list"], USAGE, "expected http://host:port"),
        (["--context", "x", "tenants", "list"], NOT_FOUND, "`milepost context list`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_said(broker: Serving, args: list[str], code: int, said: str) -> None:
    assert said in the_line(milepost(*args, url=broker.ready["http_url"]), code)


def test_what_exists_is_a_conflict(broker: Serving) -> None:
    url = broker.ready["http_url"]
    assert milepost("topics", "create", "twice", url=url).returncode == 0
    assert "twice" in the_line(milepost("topics", "create", "twice", url=url), CONFLICT)
    # pulsar-admin knows 0 and 1 only, and so does its namesake.
    assert milepost("admin", "topics", "create", "twice", url=url).returncode == 1


def test_a_data_directory_in_use(broker: Serving) -> None:
    assert "is in use by process" in the_line(milepost("verify", broker.ready["data"]), CONFLICT)


def test_nobody_to_ask(broker: Serving) -> None:
    args = ["namespaces", "clear-backlog", "public/default"]
    assert "say --force" in the_line(milepost(*args, url=broker.ready["http_url"]), USAGE)


# Terminals, pipes, signals.


@pytest.mark.parametrize("args", [["config", "show"], ["topics", "list", "public/default"]])
def test_a_pipe_that_is_closed(broker: Serving, args: list[str]) -> None:
    assert milepost("topics", "create", "piped", url=broker.ready["http_url"]).returncode in (0, 6)
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        done = subprocess.run(
            [*MILEPOST, *args],
            stdout=reader.stdin,
            stderr=subprocess.PIPE,
            env=environment(broker.ready["http_url"]),
            check=False,
        )
    assert (done.returncode, done.stderr) == (CLOSED_PIPE, b"")


def test_a_pipe_that_closes_while_messages_come(broker: Serving) -> None:
    url = broker.ready["http_url"]
    assert milepost("produce", "flood", "-m", "x" * 1000, "-n", "2000", url=url).returncode == 0
    consumer = subprocess.Popen(
        [*MILEPOST, "consume", "flood", "--from", "earliest"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(url),
    )
    assert consumer.stdout is not None
    consumer.stdout.read(1)
    consumer.stdout.close()
    assert consumer.stderr is not None
    with consumer.stderr as said:
        assert said.read() == b""
    assert consumer.wait(TIMEOUT_S) == CLOSED_PIPE


def test_ctrl_c_while_it_waits_for_messages(broker: Serving) -> None:
    url = broker.ready["http_url"]
    assert milepost("produce", "waiting", "-m", "first", url=url).returncode == 0
    consumer = subprocess.Popen(
        [*MILEPOST, "consume", "waiting", "--from", "earliest"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(url),
    )
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == b"first\n"  # it is up, and waits
    consumer.send_signal(signal.SIGINT)
    out, err = consumer.communicate(timeout=TIMEOUT_S)
    # The end of the line that ^C stands on, and nothing else.
    assert (consumer.returncode, out, err) == (INTERRUPTED, b"", b"\n")


def on_a_terminal(args: list[str], url: str, *, columns: int, **more: str) -> tuple[int, str]:
    """Run with a terminal of that width; the exit code, and what it showed."""
    given = {k: v for k, v in environment(url).items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*MILEPOST, *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**given, "TERM": "xterm", **more},
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        readable, _, _ = select.select([ours], [], [], 1)
        if not readable:
            continue
        try:
            data = os.read(ours, 65536)
        except OSError:  # Linux says that the other side has closed by an error
            break
        if not data:
            break
        shown += data
    os.close(ours)
    return process.wait(TIMEOUT_S), shown.decode().replace("\r\n", "\n")


def test_forty_columns(broker: Serving) -> None:
    url = broker.ready["http_url"]
    assert milepost("topics", "create", "narrow", url=url).returncode == 0
    done = milepost("subscriptions", "create", "narrow", "a-rather-long-name", url=url)
    assert done.returncode == 0, done.stderr
    listed = ["subscriptions", "list", "narrow"]
    code, shown = on_a_terminal(listed, url, columns=40, NO_COLOR="1")
    assert code == 0
    assert "subscription  a-rather-long-name\n" in shown
    assert max(len(line) for line in shown.splitlines()) <= 40
    code, wide = on_a_terminal(listed, url, columns=200, NO_COLOR="1")
    assert wide.splitlines()[0].startswith("SUBSCRIPTION  ")
    assert "\x1b" not in shown + wide, "no colours"
    code, coloured = on_a_terminal(listed, url, columns=200)
    assert "\x1b[1mSUBSCRIPTION\x1b[0m" in coloured
    code, helped = on_a_terminal(["--help"], url, columns=40)
    assert code == 0
    assert "Usage: milepost" in helped


def test_a_locale_that_is_not_utf_8(broker: Serving) -> None:
    done = milepost(
        "explain",
        "3:7",
        url=broker.ready["http_url"],
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONIOENCODING="",
    )
    assert done.returncode == 0, done.stderr
