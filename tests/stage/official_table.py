"""A table view of the official client, in a process of its own.

pulsar-client 3.13 crashes now and then when a client is closed that has had a table view, and takes the
process with it: here that is no process of the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Self

PROGRAM = """
import json, os, sys
import pulsar

client = pulsar.Client(sys.argv[1], logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
view = client.create_table_view(sys.argv[2])
for _ in sys.stdin:
    found = {}
    view.for_each(lambda key, value: found.__setitem__(key, value.hex()))
    print(json.dumps(found), flush=True)
os._exit(0)
"""


class OfficialTable:
    def __init__(self, url: str, topic: str) -> None:
        command = [sys.executable, "-c", PROGRAM, url, topic]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def content(self) -> dict[str, bytes]:
        """What the view shows now."""
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        pipe.write("\n")
        pipe.flush()
        line = answers.readline()
        assert line, f"the client ended with {self._process.wait()}"
        return {key: bytes.fromhex(value) for key, value in json.loads(line).items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._process:  # it ends with its input
            pass


def official_table(url: str, topic: str) -> dict[str, bytes]:
    """What a new view of the topic shows."""
    with OfficialTable(url, topic) as table:
        return table.content()
