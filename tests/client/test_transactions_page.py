"""docs/transactions.md: its program and its commands run, against a broker in a thread."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost
import milepost.testing
from milepost.cli.main import run
from milepost.testing.broker import BrokerForTest

PAGE = Path(__file__).parents[2] / "docs" / "transactions.md"
TEXT = PAGE.read_text("utf-8")
SHOWN = "pulsar://127.0.0.1:6650"


def block(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerForTest]:
    with milepost.testing.broker(http=True) as broker:
        yield broker


def test_the_program_runs(running: BrokerForTest) -> None:
    program = block("python")
    assert SHOWN in program
    exec(compile(program.replace(SHOWN, running.url), str(PAGE), "exec"), {"__name__": "__main__"})
    with milepost.Client(running.url) as client:
        charged = client.subscribe(
            "transactions-charged", "s", initial_position=milepost.InitialPosition.Earliest
        )
        assert charged.receive(timeout_millis=5000).data() == b"one coffee"


def test_the_commands_run(running: BrokerForTest, capsys: pytest.CaptureFixture[str]) -> None:
    lines = block("sh").splitlines()
    assert len(lines) == 4
    with milepost.Client(running.url) as client:
        producer = client.create_producer("transactions-waiting")
        txn = client.transaction(timeout=60)
        producer.send(b"waits", txn=txn)
        most, least = txn.id
        for line in lines:
            words = shlex.split(
                line.partition("#")[0].replace("-m 0 -l 17", f"-m {most} -l {least}")
            )
            assert words[0] == "milepost"
            assert run(["--admin-url", running.http_url, *words[1:]]) == 0, capsys.readouterr()
        shown = capsys.readouterr().out
        assert f"({most},{least})" in shown
        with pytest.raises(milepost.InvalidTransactionStatus):
            txn.commit()  # an operator has aborted it
