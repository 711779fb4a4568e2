"""`milepost serve --workers N` as processes: what an operator and a script see of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving

USAGE, CONFLICT, DATA = 2, 6, 7
PATIENCE_S = 60
TOPICS = [f"topic-{number}" for number in range(8)]

Serve = Callable[..., Serving]


@pytest.fixture
def serve(data: Path) -> Iterator[Serve]:
    """Starts brokers that end with the test."""
    made: list[Serving] = []

    def start(*flags: str) -> Serving:
        made.append(Serving(data, *flags))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.stop()
        one.process.communicate()


def refused(data: Path, *flags: str) -> tuple[int, str]:
    """The exit code and the one line of a start that is refused."""
    command = [*MILEPOST, "serve", "--data", str(data), "--port", "0", "--http-port", "0", *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE_S, check=False
    )
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr.removeprefix("milepost: ").rstrip("\n")


def ask(serving: Serving, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """One request, on a connection of its own: any worker may take it."""
    request = urllib.request.Request(
        serving.ready["http_url"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def pids(serving: Serving) -> list[int]:
    return [one["pid"] for one in json.loads(serving.ready_file.read_text())["workers"]]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended stays in the table until its parent has looked.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)  # sleep: between two looks


def test_workers_are_one_broker_that_keeps_what_it_has_and_ends_when_asked(
    serve: Serve, data: Path
) -> None:
    broker = serve("--workers", "2")
    assert f"data in {data}, 2 workers, recovered 0 entries in" in broker.line
    workers = pids(broker)
    assert len({broker.ready["pid"], broker.process.pid, *workers}) == 3
    for topic in TOPICS:
        assert ask(broker, "PUT", f"/admin/v2/persistent/public/default/{topic}")[0] == 204
    assert (
        ask(broker, "PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})[0] == 204
    )
    held = [
        {topic for topic in TOPICS if topic.encode() in catalog(data, number)} for number in (0, 1)
    ]
    assert held[0]
    assert held[1]
    assert held[0] | held[1] == set(TOPICS)
    code, log = broker.stop()
    assert (code, broker.ready_file.exists()) == (0, False)
    assert "worker=0" in log
    assert "worker=1" in log
    assert not any(map(is_alive, workers))

    again = serve("--workers", "auto")  # as many as there are shards, whatever the machine has
    listed = json.loads(ask(again, "GET", "/admin/v2/persistent/public/default")[1])
    assert listed == [f"persistent://public/default/{topic}" for topic in TOPICS]
    assert json.loads(ask(again, "GET", "/admin/v2/tenants")[1]) == ["acme", "public", "pulsar"]


def catalog(data: Path, number: int) -> bytes:
    """The bytes of a shard's catalog: what it holds can be seen in them."""
    folder = data / "shards" / str(number)
    return b"".join(one.read_bytes() for one in sorted(folder.glob("catalog.sqlite*")))


def test_a_worker_that_is_killed_is_started_again_and_the_others_serve_on(serve: Serve) -> None:
    broker = serve("--workers", "2")
    for topic in TOPICS:
        assert ask(broker, "PUT", f"/admin/v2/persistent/public/default/{topic}")[0] == 204
    before = pids(broker)
    os.kill(before[1], signal.SIGKILL)
    # Whatever is asked meanwhile is answered, or refused with 503; nothing is 404.
    seen = set()
    while pids(broker)[1] == before[1]:
        for topic in TOPICS:
            path = f"/admin/v2/persistent/public/default/{topic}/stats"
            seen.add(ask(broker, "GET", path)[0])
    assert 200 in seen
    assert seen <= {200, 503}
    after = pids(broker)
    assert after[0] == before[0]
    for topic in TOPICS:
        assert ask(broker, "GET", f"/admin/v2/persistent/public/default/{topic}/stats")[0] == 200
    metrics = ask(broker, "GET", "/metrics")[1]
    assert b'milepost_worker_restarts_total{worker="0"} 0.0' in metrics
    assert b'milepost_worker_restarts_total{worker="1"} 1.0' in metrics
    log = broker.log.read_text()
    assert f"worker 1 (process {before[1]}) was ended by signal 9; it is started again" in log


def test_a_ready_file_that_cannot_be_written_again_does_not_end_the_broker(serve: Serve) -> None:
    """As on a full disk, when a worker was started again."""
    broker = serve("--workers", "2")
    in_the_way = broker.ready_file.with_name(broker.ready_file.name + ".new")
    in_the_way.mkdir()
    os.kill(pids(broker)[1], signal.SIGKILL)
    until(lambda: "all workers are up again" in broker.log.read_text())
    assert ask(broker, "GET", "/admin/v2/brokers/health") == (200, b"ok")
    assert "cannot be written, and says what was before: Is a directory" in broker.log.read_text()
    assert broker.stop()[0] == 0


def test_workers_end_when_the_process_that_started_them_is_gone(serve: Serve) -> None:
    broker = serve("--workers", "2")
    workers = pids(broker)
    broker.stop(signal.SIGKILL)
    until(lambda: not any(map(is_alive, workers)))
    assert "the supervisor is gone" in broker.log.read_text()
    assert ask(serve("--workers", "2"), "GET", "/admin/v2/brokers/health") == (200, b"ok")


def test_a_start_waits_for_the_workers_of_a_supervisor_that_was_killed(
    serve: Serve, data: Path
) -> None:
    """They still drain, and hold the directory and the ports."""
    broker = serve("--workers", "2")
    workers = pids(broker)
    for one in workers:
        os.kill(one, signal.SIGSTOP)  # so that they are there when the next one starts
    try:
        broker.process.kill()
        broker.process.wait(PATIENCE_S)
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(serve, "--workers", "2")
            until(lambda: "its workers are waited for" in broker.log.read_text())
            assert not starting.done()
            for one in workers:
                os.kill(one, signal.SIGCONT)
            again = starting.result(PATIENCE_S)
    finally:
        for one in workers:
            if is_alive(one):
                os.kill(one, signal.SIGCONT)
    assert ask(again, "GET", "/admin/v2/brokers/health") == (200, b"ok")
    code, line = refused(data, "--workers", "2")
    assert code == CONFLICT
    assert f"is in use by process {again.process.pid}" in line


def test_an_interrupt_of_the_terminal_ends_all_of_them_well(serve: Serve) -> None:
    """It reaches every process; a worker must not take it for the second signal."""
    broker = serve("--workers", "2")
    for pid in pids(broker):
        os.kill(pid, signal.SIGINT)
    code, log = broker.stop(signal.SIGINT)
    assert code == 0
    assert "not drained" not in log


def test_a_signal_for_all_processes_ends_all_of_them_well(serve: Serve) -> None:
    """As systemd and `timeout` send it: each worker hears it twice, here and from the first process."""
    broker = serve("--workers", "2")
    for pid in pids(broker):
        os.kill(pid, signal.SIGTERM)
    code, log = broker.stop(signal.SIGTERM)
    assert code == 0
    assert "not drained" not in log


def test_one_core_and_four_workers(serve: Serve, data: Path) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        broker = serve("--workers", "4")
    finally:
        os.sched_setaffinity(0, before)
    assert len(set(pids(broker))) == 4
    assert ask(broker, "GET", "/admin/v2/brokers/health") == (200, b"ok")


# -- refused -----------------------------------------------------------------------------------------


def test_a_directory_of_another_kind_is_refused_and_never_taken_for_an_empty_one(
    serve: Serve, data: Path
) -> None:
    broker = serve("--workers", "2")
    assert ask(broker, "PUT", "/admin/v2/persistent/public/default/kept")[0] == 204
    code, line = refused(data, "--workers", "2")
    assert (code, line.partition(" is in use")[0]) == (CONFLICT, f"data directory {data}")
    broker.stop()
    expected = f"data directory {data} has 2 shards: start with --workers 2"
    assert refused(data) == (CONFLICT, expected)
    assert refused(data, "--workers", "1") == (CONFLICT, expected)
    assert refused(data, "--bucket", (data.parent / "bucket").as_uri()) == (CONFLICT, expected)
    code, line = refused(data, "--workers", "3")
    assert code == CONFLICT
    assert line == (
        f"data directory {data} has 2 shards, not 3: start with --workers 2, or --workers auto"
    )
    verified = subprocess.run(
        [*MILEPOST, "verify", str(data)], capture_output=True, text=True, check=False, timeout=60
    )
    assert verified.returncode == USAGE
    assert f"verify each of them, as in `milepost verify {data}/shards/0`" in verified.stderr
    again = serve("--workers", "2")
    listed = json.loads(ask(again, "GET", "/admin/v2/persistent/public/default")[1])
    assert listed == ["persistent://public/default/kept"]


def test_a_directory_of_one_process_is_refused(serve: Serve, data: Path) -> None:
    broker = serve()
    assert "workers" not in broker.ready
    assert ask(broker, "PUT", "/admin/v2/persistent/public/default/kept")[0] == 204
    broker.stop()
    before = sorted(one.name for one in data.iterdir())
    code, line = refused(data, "--workers", "2")
    assert code == CONFLICT
    assert line == (
        f"data directory {data} is of a broker without workers: start without --workers, or choose "
        "another --data"
    )
    assert sorted(one.name for one in data.iterdir()) == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--workers", "0"), "expected a whole number from 1 to 64, or auto"),
        (("--workers", "65"), "expected a whole number from 1 to 64, or auto"),
        (("--workers", "many"), "workers = 'many': expected a whole number"),
        (("--workers", "2", "--bucket", "file:///nowhere"), "workers = 2 and bucket: workers keep"),
        (
            ("--workers", "2", "--rocketmq-port", "0"),
            "workers = 2 and rocketmq_port: RocketMQ clients are served by one process",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    data: Path, flags: tuple[str, ...], words: str
) -> None:
    code, line = refused(data, *flags)
    assert code == USAGE
    assert words in line
    assert not data.exists()


def test_a_port_in_use_is_told_and_nothing_is_left_running(serve: Serve, data: Path) -> None:
    broker = serve("--workers", "2")
    taken = str(broker.ready["workers"][0]["port"])
    other = data.with_name("other")
    code, line = refused(other, "--workers", "2", "--set", f"worker_port={taken}")
    assert code == CONFLICT
    assert f"cannot listen on 127.0.0.1:{taken}: the port is in use" in line


def test_a_shard_that_cannot_be_opened_ends_the_start_with_its_reason(
    serve: Serve, data: Path
) -> None:
    serve("--workers", "2").stop()
    (data / "shards" / "1" / "catalog.sqlite").write_bytes(b"not a database" * 100)
    command = [*MILEPOST, "serve", "--data", str(data), "--port", "0", "--http-port", "0"]
    done = subprocess.run(
        [*command, "--workers", "2"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == DATA
    assert "catalog.sqlite: file is not a database" in done.stderr
    assert "worker 1 could not be started" in done.stderr
