"""A real `milepost serve` in a process of its own: started, stopped, killed and started again.

The port is free at the first start and the same at every later one, so that clients reconnect. That the
broker is up is heard from its own announcement, not guessed.

    with BrokerProcess(tmp_path, deduplication=True) as broker:
        client = pulsar.Client(broker.url)
        broker.kill()  # as a power cut, for the process
        broker.start()
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from stage import warm
from stage.ports import free_port
from stage.tests_on import BUCKET, TESTS_ON, WORKERS

from milepost.broker.workers.placement import shard_of
from milepost.cli.server.verify import check
from milepost.positions.names import TopicName
from milepost.storage.bucket.start import CACHE
from milepost.storage.shards import shard_path

START_TIMEOUT_S = 120
# Settings that do not go together with workers.
ALONE = {"workers", "bucket"}
STOP_TIMEOUT_S = 60


def not_on_a_bucket(reason: str) -> pytest.MarkDecorator:
    """A test of the files of a data directory."""
    return pytest.mark.skipif(TESTS_ON == BUCKET, reason=f"on a bucket: {reason}")


def not_on_workers(reason: str) -> pytest.MarkDecorator:
    """A test of what several workers do not do, as docs/workers.md says."""
    return pytest.mark.skipif(TESTS_ON == WORKERS, reason=f"several workers: {reason}")


class BrokerProcess:
    def __init__(self, directory: Path, **settings: object) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data = directory / "data"
        self.log = directory / "broker.log"
        self.settings = settings
        self.flags: list[str] = []
        """More of the command line, such as a conf file."""
        self.bucket: Path | None = None
        """The folder that is its bucket, if the tests are to run on one."""
        if TESTS_ON == BUCKET and not settings.keys() & ALONE:
            self.bucket = directory.absolute() / "bucket"
            self.flags += ["--bucket", self.bucket.as_uri()]
        elif TESTS_ON == WORKERS and not settings.keys() & ALONE:
            self.flags += ["--workers", "2"]
        self.descriptors: int | None = None
        """How many the process may have."""
        self.patience_s = START_TIMEOUT_S
        """How long a start may take."""
        self.stop_patience_s = STOP_TIMEOUT_S
        """How long a stop may take."""
        self.port = free_port()
        self.http_port = free_port()
        self.tls_port = self.https_port = self.rocketmq_port = self.rocketmq_tls_port = -1
        self.rocketmq_namesrv_port = self.rocketmq_namesrv_tls_port = -1
        self._ready_file = directory / "ready.json"
        self._process: subprocess.Popen[bytes] | warm.Forked | None = None
        self._output = -1
        """What it says, while it runs."""
        self._log_read = 0
        self.worker_ports: list[int] = []
        """Of each worker its own; none where there is one process."""
        self.worker_tls_ports: list[int] = []

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when clients can connect."""
        assert not self.is_running
        self._ready_file.unlink(missing_ok=True)
        command = ["serve"]
        command += ["--data", str(self.data), "--ready-file", str(self._ready_file)]
        command += ["--port", str(self.port), "--http-port", str(self.http_port)]
        command += self.flags
        for name, value in self.settings.items():
            command += ["--set", f"{name}={_written(value)}"]
        self._output, output = os.pipe()
        with self.log.open("ab") as log:
            if self.descriptors is None and warm.IS_POSSIBLE:
                self._process = warm.start(command, stdout=output, stderr=log.fileno())
            else:
                # Without a function to run first no copy of this process is made, whose other threads may
                # be in the middle of something.
                limit = None if self.descriptors is None else self._limit
                command = [sys.executable, "-m", "milepost.cli.main", *command]
                self._process = subprocess.Popen(
                    command, stdout=output, stderr=log, preexec_fn=limit
                )
        os.close(output)
        self._await_announcement()
        ready = json.loads(self._ready_file.read_text())
        self.port, self.http_port = ready["port"], ready["http_port"]
        self.tls_port, self.https_port = ready["tls_port"], ready["https_port"]
        workers = ready.get("workers", ())
        self.worker_ports = [one["port"] for one in workers]
        self.worker_tls_ports = [one["tls_port"] for one in workers]
        self.rocketmq_port = ready["rocketmq_port"]
        self.rocketmq_tls_port = ready["rocketmq_tls_port"]
        self.rocketmq_namesrv_port = ready["rocketmq_namesrv_port"]
        self.rocketmq_namesrv_tls_port = ready["rocketmq_namesrv_tls_port"]

    # -- workers -----------------------------------------------------------------------------------

    def worker_of(self, topic: str) -> int:
        """The worker that has a topic."""
        return shard_of(TopicName.parse(topic), len(self.worker_ports))

    def port_of(self, topic: str) -> int:
        """The port of the process that has a topic."""
        return self.worker_ports[self.worker_of(topic)] if self.worker_ports else self.port

    def tls_port_of(self, topic: str) -> int:
        ports = self.worker_tls_ports
        return ports[self.worker_of(topic)] if ports else self.tls_port

    def data_of(self, topic: str) -> Path:
        """The data directory that has a topic; of a bucket, the cache."""
        if self.bucket is not None:
            return self.data / CACHE
        return shard_path(self.data, self.worker_of(topic)) if self.worker_ports else self.data

    def journal_of(self, topic: str) -> Path:
        """The folder with the journal that has a topic."""
        return (self.bucket or self.data_of(topic)) / "journal"

    @property
    def directories(self) -> list[Path]:
        """Each data directory: one, or one for each worker."""
        numbers = range(len(self.worker_ports))
        return [shard_path(self.data, number) for number in numbers] or [self.data]

    def problems(self) -> list[str]:
        """What is wrong with its files, or with its bucket."""
        if self.bucket is None:
            return [str(one) for path in self.directories for one in check(path).all_problems]
        command = [sys.executable, "-m", "milepost.cli.main", "verify", self.bucket.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return [done.stdout + done.stderr] if done.returncode else []

    @property
    def serving(self) -> list[int]:
        """The ids of the processes that serve clients."""
        assert self._process is not None
        return [one["pid"] for one in self._workers()] or [self._process.pid]

    def kill_worker(self, number: int) -> int:
        """`kill -9` of one worker; its process id."""
        pid = self._workers()[number]["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def await_worker(self, number: int, killed: int) -> None:
        """Return when another process is in the place of one that was killed."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._workers()[number]["pid"] == killed:
            assert time.monotonic() < deadline, f"worker {number} is not started again"
            time.sleep(0.01)  # sleep: between two looks

    def _workers(self) -> list[dict[str, int]]:
        if not self._ready_file.exists():
            return []  # it has ended
        found: list[dict[str, int]] = json.loads(self._ready_file.read_text()).get("workers", [])
        return found

    def _limit(self) -> None:
        if self.descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

    def kill(self) -> None:
        """`kill -9`: nothing is flushed, nobody is told."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._end(signal.SIGTERM)

    def restart(self, *, kill: bool = True) -> None:
        self._end(signal.SIGKILL if kill else signal.SIGTERM)
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def complaints(self) -> str:
        """What it logged as an error since it was last asked; a healthy broker does not."""
        with self.log.open(encoding="utf-8") as log:
            log.seek(self._log_read)
            text = log.read()
            self._log_read = log.tell()
        at = min((at for at in map(text.find, (" ERROR ", "Traceback")) if at >= 0), default=-1)
        return "" if at < 0 else text[text.rfind("\n", 0, at) + 1 :][:4000]

    def rest(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """One call of the REST interface: status, and the answer if it is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def create_partitioned_topic(self, name: str, partitions: int) -> None:
        path = name.replace("://", "/")
        status, answer = self.rest("PUT", f"/admin/v2/{path}/partitions", partitions)
        assert status in (200, 204), (status, answer)

    # -- the process -------------------------------------------------------------------------------

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.serving:
            os.kill(pid, number)

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        workers: list[warm.Forked] = []
        if number == signal.SIGKILL and self.worker_ports and process.poll() is None:
            # All at once, as a power cut: else workers would be started again, or drain.
            process.send_signal(signal.SIGSTOP)
            for one in self._workers():
                with suppress(OSError):
                    # Not a process that has its number by now.
                    stat = Path(f"/proc/{one['pid']}/stat").read_text()
                    if int(stat.rpartition(")")[2].split()[1]) == process.pid:
                        workers.append(warm.Forked(one["pid"], os.pidfd_open(one["pid"])))
                        workers[-1].send_signal(signal.SIGKILL)
        if process.poll() is None:
            process.send_signal(number)
        for ending in (process, *workers):
            ending.wait(self.stop_patience_s)
        os.close(self._output)
        self._process = None

    def _await_announcement(self) -> None:
        """Read the first line that it writes; the ready file was written before."""
        line = _read_line(self._output, time.monotonic() + self.patience_s)
        if not line.startswith(b"Milepost"):
            self.kill()
            raise AssertionError(f"no broker ({line!r}):\n{self.log.read_text()[-4000:]}")


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_line(output: int, deadline: float) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        waiting, _, _ = select.select([output], [], [], max(deadline - time.monotonic(), 0))
        if not waiting:
            break
        data = os.read(output, 4096)
        if not data:
            break
        line += data
    return line
