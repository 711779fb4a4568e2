"""docs/rocketmq.md: the programs on it run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from compat.broker_process import BrokerProcess

PAGE = Path(__file__).parents[2] / "docs" / "rocketmq.md"


def test_the_programs_run(
    broker: BrokerProcess, raw: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    broker.create_partitioned_topic("persistent://public/default/orders", 4)
    for program in programs:
        assert "127.0.0.1:8081" in program
        exec(program.replace("127.0.0.1:8081", f"127.0.0.1:{broker.rocketmq_port}"), {})
    receipt, delivery = capsys.readouterr().out.splitlines()
    assert receipt.endswith(" 0")
    assert delivery == "b'one tea' 1"
    (committed,) = raw.receive("orders", "billing")
    assert committed.body == b"one cake"
