"""A task's memory does not grow with what it reads, however large the messages are."""

from __future__ import annotations

import subprocess
import sys

from compat.broker_process import BrokerProcess

from milepost.spark.options import read_options
from milepost.spark.reading.survey import Survey
from spark.conftest import Publisher

SIZE = 5 << 20
FEW, MANY = 2, 14
# The most that a process ever had, in KiB: not by getrusage, which counts what it was forked from.
READ = """
import sys
from pathlib import Path
from milepost.spark.reading.fetch import fetch
from milepost.spark.offsets import Slice
from milepost.client.connection.endpoint import Endpoint
url, topic, end = sys.argv[1:]
found = 0
for batch in fetch(Endpoint(url=url), Slice(topic, 0, int(end)), ("index", "value")):
    found += batch["value"].nbytes
    del batch
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(found, status["VmHWM"].split()[0])
"""


def memory_mib(broker: BrokerProcess, topic: str, end: int, messages: int) -> float:
    command = [sys.executable, "-c", READ, broker.url, topic, str(end)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    size, peak = map(int, said.stdout.split())
    assert size >= messages * SIZE
    return peak / 1024


def test_chunked_messages_pass_one_after_another(
    broker: BrokerProcess, topic: str, publisher: Publisher
) -> None:
    for _ in range(MANY):
        publisher.chunked(SIZE)
    survey = Survey(read_options({"serviceUrl": broker.url, "topic": topic}))
    try:
        end = survey.ends()[topic]
    finally:
        survey.close()
    assert end > MANY, "each has several chunks, and as many as the others"
    few = memory_mib(broker, topic, end // MANY * FEW, FEW)
    many = memory_mib(broker, topic, end, MANY)
    # 60 MiB more were read; half of that is what allocators may hold on to.
    assert many - few < (MANY - FEW) * SIZE / (1 << 20) / 2
