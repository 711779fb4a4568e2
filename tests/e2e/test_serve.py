"""`milepost serve` as a process: what an operator and a script see of it."""

from __future__ import annotations

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving

USAGE, NOT_FOUND, CONFLICT, DATA, STORAGE = 2, 5, 6, 7, 8
# For a start on a loaded machine; an idle one takes well under a second.
START_SECONDS_MAX = 15


def milepost(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MILEPOST, *args],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=START_SECONDS_MAX,
        check=False,
    )


def the_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed start says: one line, nothing else."""
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("milepost: ")
    return done.stderr.removeprefix("milepost: ").rstrip("\n")


# Up.


def test_it_is_up_soon_and_says_where(serving: Serving, data: Path) -> None:
    assert serving.took_s < START_SECONDS_MAX
    ready = serving.ready
    assert re.fullmatch(
        rf"Milepost \S+ · {re.escape(ready['pulsar_url'])} · {re.escape(ready['http_url'])} · "
        rf"data in {re.escape(str(data))}, recovered 0 entries in \d+ ms\n",
        serving.line,
    )
    assert serving.process.stdout is not None
    assert serving.process.stdout.readline() == f"Console: {ready['http_url']}/console/\n"
    assert ready["pid"] == serving.process.pid
    assert ready["pulsar_url"] == f"pulsar://127.0.0.1:{ready['port']}"
    assert ready["http_url"] == f"http://127.0.0.1:{ready['http_port']}"


def test_both_ports_answer(serving: Serving) -> None:
    with socket.create_connection(("127.0.0.1", serving.ready["port"]), timeout=10):
        pass
    assert serving.get("/admin/v2/brokers/health") == b"ok"
    found = json.loads(serving.get("/lookup/v2/topic/persistent/public/default/orders"))
    assert found["brokerUrl"] == serving.ready["pulsar_url"]
    assert found["httpUrl"] == serving.ready["http_url"]
    assert b"pulsar_active_connections" in serving.get("/metrics")


def test_head_has_no_body(serving: Serving) -> None:
    request = urllib.request.Request(serving.ready["http_url"] + "/status.html", method="HEAD")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert (answer.status, answer.headers["content-length"]) == (200, "2")
        assert answer.read() == b""


def test_it_listens_on_loopback_only(serving: Serving) -> None:
    listening = Path("/proc/net/tcp").read_text("ascii")
    for port in (serving.ready["port"], serving.ready["http_port"]):
        rows = [row.split() for row in listening.splitlines() if f":{port:04X} " in row]
        addresses = {row[1] for row in rows if row[3] == "0A"}
        assert addresses == {f"0100007F:{port:04X}"}


def test_files_are_for_their_owner_only(serving: Serving, data: Path) -> None:
    assert data.stat().st_mode & 0o777 == 0o700


# Down.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_drains_and_exits_0(serving: Serving, number: int) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests were started by nohup, which a broker obeys")
    with socket.create_connection(("127.0.0.1", serving.ready["port"]), timeout=10):
        code, logged = serving.stop(number)
    assert code == 0, logged
    assert "Traceback" not in logged
    assert not serving.ready_file.exists()


def test_sigquit_shows_the_stacks_and_it_goes_on(serving: Serving) -> None:
    serving.process.send_signal(signal.SIGQUIT)
    deadline = time.monotonic() + 30
    while "most recent call first" not in serving.log.read_text("utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # sleep: between two looks at another process's log
    assert serving.get("/admin/v2/brokers/health") == b"ok"
    assert serving.stop()[0] == 0


def test_it_comes_back_after_a_signal_and_after_a_kill(serving: Serving, data: Path) -> None:
    assert serving.stop()[0] == 0
    for number in (signal.SIGKILL, signal.SIGTERM):
        again = Serving(data)
        assert again.get("/admin/v2/brokers/health") == b"ok"
        assert again.stop(number)[0] in (-signal.SIGKILL, 0)


# Refused.


def test_a_second_process_on_the_directory_is_refused(serving: Serving, data: Path) -> None:
    done = milepost("serve", "--data", str(data), "--port", "0", "--http-port", "0")
    assert done.returncode == CONFLICT
    assert the_line(done) == (
        f"data directory {data} is in use by process {serving.process.pid}; "
        "stop it, or choose another --data"
    )
    assert serving.get("/status.html") == b"OK"


@pytest.mark.parametrize("flag", ["port", "http_port"])
def test_a_port_in_use_is_refused_and_the_directory_given_back(
    serving: Serving, tmp_path: Path, flag: str
) -> None:
    other = tmp_path / "other"
    ports = {"port": "0", "http_port": "0", flag: str(serving.ready[flag])}
    flags = [f"--set={name}={value}" for name, value in ports.items()]
    done = milepost("serve", "--data", str(other), *flags)
    assert done.returncode == CONFLICT
    assert the_line(done) == (
        f"cannot listen on 127.0.0.1:{serving.ready[flag]}: the port is in use; stop what listens "
        f"there, or choose another --{flag.replace('_', '-')}"
    )
    assert Serving(other).stop()[0] == 0


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--port", "eighty"], "--port: port = 'eighty': expected a whole number from -1 to 65535"),
        (["--prot", "1"], None),
        (["--set", "journal_size=1"], None),
        (
            ["--host", "256.0.0.1", "--port", "0"],
            "cannot listen on 256.0.0.1:0: there is no such host; choose another --host",
        ),
        (
            ["--host", "192.0.2.1", "--port", "0"],
            "cannot listen on 192.0.2.1:0: this machine does not have that address; choose "
            "another --host",
        ),
    ],
)
def test_bad_flags_are_refused(data: Path, flags: list[str], line: str | None) -> None:
    done = milepost("serve", "--data", str(data), *flags)
    assert done.returncode == USAGE
    assert line in (None, the_line(done))


def test_a_file_that_is_missing_is_not_found(data: Path) -> None:
    done = milepost("serve", "--data", str(data), "--config", "missing.toml")
    assert done.returncode == NOT_FOUND
    assert the_line(done).startswith("missing.toml: ")


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory", "utf-8")
    done = milepost("serve", "--data", str(tmp_path / "file"), "--port", "0", "--http-port", "0")
    assert done.returncode == CONFLICT
    assert the_line(done) == (
        f"data directory {tmp_path / 'file'}: it, or a part of its path, is a file; choose another --data"
    )


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("nothing can be made in /proc")
    done = milepost("serve", "--data", "/proc/milepost", "--port", "0", "--http-port", "0")
    assert done.returncode == STORAGE
    assert the_line(done).startswith("data directory /proc/milepost cannot be made: ")


def test_data_of_a_newer_format_is_refused_and_not_touched(serving: Serving, data: Path) -> None:
    assert serving.stop()[0] == 0
    catalog = sqlite3.connect(data / "catalog.sqlite")
    catalog.execute("pragma user_version = 99")
    catalog.close()
    before = {path: path.stat().st_size for path in data.rglob("*") if path.is_file()}
    done = milepost("serve", "--data", str(data), "--port", "0", "--http-port", "0")
    assert done.returncode == DATA
    assert the_line(done) == (
        "catalog.sqlite: format 99; this release reads 2; nothing was touched: run the version "
        "that wrote it, or a newer one"
    )
    after = {path: path.stat().st_size for path in data.rglob("*") if path.is_file()}
    assert after == before


# Settings and logs.


def test_checking_the_settings_starts_nothing(tmp_path: Path, data: Path) -> None:
    conf, toml = tmp_path / "broker.conf", tmp_path / "milepost.toml"
    conf.write_text("zookeeperServers=a:2181\nmaxMessageSize=2097152\n", "utf-8")
    toml.write_text("port = 1\n", "utf-8")
    flags = ["--check-config", "--data", str(data), "--conf", str(conf), "--config", str(toml)]
    good = milepost("serve", *flags)
    assert (good.returncode, good.stdout) == (0, "the settings are good\n")
    assert good.stderr == "milepost: not used here, from broker.conf: zookeeperServers\n"
    toml.write_text("\nport = -2\n", "utf-8")
    bad = milepost("serve", *flags)
    assert bad.returncode == USAGE
    assert the_line(bad) == ("milepost.toml:2: port = -2: expected a whole number from -1 to 65535")
    assert not data.exists()


def test_logs_are_json_when_asked_for(data: Path) -> None:
    flags = ("--log-format", "json", "--set", "batch_index_ack=false")
    broker = Serving(data, *flags, command="standalone")
    code, logged = broker.stop()
    assert code == 0
    events = [json.loads(line) for line in logged.splitlines()]
    assert "batch_index_ack is off (--set)" in events[0]["event"]
    assert (events[0]["level"], events[-1]["event"]) == ("warning", "stopping")


def test_checking_the_settings_looks_at_keys_too(tmp_path: Path, data: Path) -> None:
    key = tmp_path / "secret.key"
    key.write_bytes(b"too short")
    flags = ["--check-config", "--data", str(data), "--set", "authentication=true"]
    bad = milepost("serve", *flags, "--set", f"token_secret_key={key}")
    assert bad.returncode == USAGE
    assert the_line(bad) == "token_secret_key: a secret key of 9 bytes; it takes 32 or more"
    key.write_bytes(b"k" * 32)
    key.chmod(0o644)
    good = milepost("serve", *flags, "--set", f"token_secret_key={key}")
    assert (good.returncode, good.stdout) == (0, "the settings are good\n")
    assert f"{key}: others on this machine" in good.stderr
    assert "kkkk" not in good.stderr
