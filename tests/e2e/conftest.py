"""A broker as a process of its own, for everything that is tried as a person would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

MILEPOST = [sys.executable, "-m", "milepost.cli.main"]
EXIT_SECONDS_MAX = 60

ENVIRONMENT = {
    k: v
    for k, v in os.environ.items()
    if not k.startswith(("MILEPOST_", "PULSAR_")) and k != "PYTHONDONTWRITEBYTECODE"
}


class Serving:
    """A broker of its own process, on free ports. Up when this is made."""

    def __init__(self, data: Path, *flags: str, command: str = "serve") -> None:
        self.ready_file = data.with_suffix(".ready")
        began = time.perf_counter()
        line = [*MILEPOST, command, "--data", str(data), "--port", "0", "--http-port", "0"]
        self.log = data.with_suffix(".log")
        with self.log.open("w") as log:  # not a pipe: it may be long, and nobody reads it meanwhile
            self.process = subprocess.Popen(
                [*line, "--ready-file", str(self.ready_file), *flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=ENVIRONMENT,
            )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.took_s = time.perf_counter() - began
        if not self.line:
            self.process.communicate()
            raise AssertionError(f"not started: {self.log.read_text('utf-8')}")
        self.ready = json.loads(self.ready_file.read_text("utf-8"))

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; the exit code, and what was logged."""
        self.process.send_signal(number)
        self.process.communicate(timeout=EXIT_SECONDS_MAX)
        return self.process.returncode, self.log.read_text("utf-8")

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.ready["http_url"] + path, timeout=60) as answer:
            body: bytes = answer.read()
            return body


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def serving(data: Path) -> Iterator[Serving]:
    broker = Serving(data)
    yield broker
    if broker.process.poll() is None:
        broker.process.kill()
    broker.process.communicate()
