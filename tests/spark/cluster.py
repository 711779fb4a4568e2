"""A real standalone cluster: a Master and two Workers of the installed PySpark, on loopback and free ports.

Its executors run a Python that has what Milepost needs and not Milepost: that comes with the job, or not at
all.

    with Cluster(tmp_path) as cluster:
        driver = Driver(tmp_path / "log", master=cluster.url, python=bare_python(tmp_path), jobs=[...])
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark

import milepost

TESTS = Path(__file__).parent.parent
PROJECT = TESTS.parent
SPARK_HOME = Path(pyspark.__file__).parent
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE_S = 600


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)  # sleep: another process is on its way


def environment(**more: str) -> dict[str, str]:
    """That of this process, without its modules."""
    inherited = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), **more}


def wheel(directory: Path) -> Path:
    """The wheel, under the name by which Spark and numba know an archive of modules."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return built.rename(directory / "milepost.zip")


def installed(archive: Path, directory: Path) -> Path:
    """What an installer makes of the wheel."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(directory)
    return directory


def bare_python(directory: Path) -> Path:
    """An interpreter with the installed packages, but for those that are only linked, as Milepost is here."""
    path = directory / "bare-python"
    site = sysconfig.get_path("purelib")
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {sys.executable} -S "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


class Cluster:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Cluster:
        try:
            master = self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0")
            found = self._said(master, r"Starting Spark master at (spark://\S+)")
            self.url = found[1]
            self._said(master, "elected leader")
            workers = [
                self._start(
                    f"worker{number}",
                    "org.apache.spark.deploy.worker.Worker",
                    *("--cores", "1", "--memory", "1g"),
                    *("--work-dir", str(self._directory / f"work{number}"), self.url),
                )
                for number in range(2)
            ]
            for log in workers:
                self._said(log, "Successfully registered with master")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        for process in reversed(self._processes):
            # A group of its own, with the executors of a worker in it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def executors(self) -> list[int]:
        """The process ids of those that run."""
        workers = {process.pid for process in self._processes[1:]}
        return [pid for pid in children(workers) if "CoarseGrainedExecutorBackend" in command(pid)]

    def _start(self, name: str, main: str, *args: str) -> Path:
        log = self._directory / f"{name}.log"
        line = [str(SPARK_HOME / "bin" / "spark-class"), main, "--host", "127.0.0.1"]
        options = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM}
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [*line, "--webui-port", "0", *args],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment(**options),
                    start_new_session=True,
                )
            )
        return log

    def _said(self, log: Path, expression: str) -> re.Match[str]:
        found: list[re.Match[str]] = []

        def is_said() -> bool:
            assert all(one.poll() is None for one in self._processes), log.read_text()[-2000:]
            found.extend(re.finditer(expression, log.read_text()))
            return bool(found)

        wait_until(is_said, f"{log}: {expression}")
        return found[0]


def children(parents: set[int]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                status = (entry / "stat").read_text()
            except OSError:
                continue  # gone
            if int(status.rpartition(")")[2].split()[1]) in parents:
                found.append(int(entry.name))
    return found


def command(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_text()
    except OSError:
        return ""


class Driver:
    """A program that runs jobs (program.py) in a process and a JVM of its own.

    It takes Milepost from `modules`; `python` is the interpreter of its workers, wherever they run.
    """

    def __init__(
        self,
        directory: Path,
        *,
        modules: Path | None = None,
        python: Path | None = None,
        jobs: list[dict[str, Any]],
        **settings: Any,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "driver.log"
        path = [str(modules or Path(milepost.__file__).parent.parent), str(TESTS)]
        line = [sys.executable, "-m", "spark.program", json.dumps({"jobs": jobs, **settings})]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                line,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(
                    PYTHONPATH=os.pathsep.join(path), PYSPARK_PYTHON=str(python or sys.executable)
                ),
                start_new_session=True,
            )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """`kill -9`: the program and its JVM. Python workers find out by themselves."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def result(self) -> dict[str, Any]:
        """What its next job said."""
        output = self._process.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], PATIENCE_S)
        line = output.readline() if ready else b""
        assert line, f"no result:\n{self.log.read_text()[-4000:]}"
        found: dict[str, Any] = json.loads(line)
        return found
