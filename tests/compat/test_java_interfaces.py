"""Every call of the official Java interfaces, against Milepost and, if there is one, Apache Pulsar.

`java_client/Interfaces.java` finds the calls by reflection and makes each once. What comes of it is
compared with `java_client/interfaces.txt`. That has a line for each call: the call, Apache Pulsar's
outcome and, where Milepost's is another, that and the reason. `make clients` runs Milepost's side. With
MILEPOST_PULSAR_URL and MILEPOST_PULSAR_ADMIN_URL (`pulsar://…` and `http://…` of a standalone that
nothing else uses, of the version in `pom.xml`) the other side is checked, too. MILEPOST_INTERFACES_OUT
keeps what was seen, in a file for each broker.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest
from compat.broker_process import BrokerProcess
from compat.java import BUILD_TIMEOUT_S, SOURCE, class_path, run

__all__ = ["class_path"]  # the fixture

RUN_TIMEOUT_S = 1800
TABLE = SOURCE / "interfaces.txt"
PULSAR = os.environ.get("MILEPOST_PULSAR_URL"), os.environ.get("MILEPOST_PULSAR_ADMIN_URL")

if os.environ.get("MILEPOST_CLIENTS") != "1":
    pytest.skip("the Java client is tested by `make clients`", allow_module_level=True)


class Row(NamedTuple):
    call: str
    pulsar: str
    milepost: str
    reason: str


def rows() -> list[Row]:
    found = []
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            call, pulsar, *differs = line.split("\t")
            milepost, reason = differs or (pulsar, "")
            found.append(Row(call, pulsar, milepost, reason))
    return found


def outcomes(
    class_path: str, name: str, url: str, admin_url: str, directory: Path
) -> dict[str, str]:
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path]
    done = run([*command, "Interfaces", url, admin_url], directory, RUN_TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-2000:]
    if kept := os.environ.get("MILEPOST_INTERFACES_OUT"):
        Path(kept, f"{name}.txt").write_text(done.stdout)
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)


def differences(expected: dict[str, str], seen: dict[str, str]) -> list[str]:
    return [
        f"{call}: expected {expected.get(call, 'no such call')}, saw {seen.get(call, 'nothing')}"
        for call in sorted(expected.keys() | seen.keys())
        if expected.get(call) != seen.get(call)
    ]


def test_the_table_has_each_call_once_and_a_reason_for_each_difference() -> None:
    table = rows()
    assert len({row.call for row in table}) == len(table) > 1000
    assert [row.call for row in table if (row.milepost != row.pulsar) != bool(row.reason)] == []


@pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)
def test_milepost(class_path: str, broker: BrokerProcess, tmp_path: Path) -> None:
    admin_url = f"http://127.0.0.1:{broker.http_port}"
    seen = outcomes(class_path, "milepost", broker.url, admin_url, tmp_path)
    assert differences({row.call: row.milepost for row in rows()}, seen) == []


@pytest.mark.skipif(None in PULSAR, reason="there is no MILEPOST_PULSAR_URL and _ADMIN_URL")
@pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)
def test_apache_pulsar(class_path: str, tmp_path: Path) -> None:
    url, admin_url = PULSAR
    assert url is not None
    assert admin_url is not None
    seen = outcomes(class_path, "pulsar", url, admin_url, tmp_path)
    assert differences({row.call: row.pulsar for row in rows()}, seen) == []
