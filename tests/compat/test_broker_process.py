"""Brokers of tests are processes of their own, although they are forked with their modules imported."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from compat.broker_process import BrokerProcess
from stage import warm

pytestmark = pytest.mark.skipif(not warm.IS_POSSIBLE, reason="no descriptors of processes")


def test_a_broker_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has our environment and directory, and nothing open that is ours."""
    monkeypatch.setenv("MILEPOST_DEDUPLICATION", "true")
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "ours").open("w") as ours, BrokerProcess(Path("own")) as broker:
        (pid,) = broker.serving[:1]
        assert pid != os.getpid()
        opened = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}
        assert os.readlink(f"/proc/self/fd/{ours.fileno()}") not in opened
        assert str(tmp_path / "own/broker.log") in opened
        path = "/admin/v2/brokers/configuration/runtime"
        status, settings = broker.rest("GET", path)
        assert (status, settings["brokerDeduplicationEnabled"]) == (200, "true")
        broker.kill()
        assert not broker.is_running
        with pytest.raises(ConnectionRefusedError):
            broker.rest("GET", path)
        broker.start()
        assert broker.rest("GET", path)[0] == 200


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no_such_setting"):
        BrokerProcess(tmp_path, no_such_setting=1).start()


def test_a_process_that_goes_on_is_waited_for_in_vain(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "data"), "--port", "0", "--http-port", "0"]
    with (tmp_path / "said").open("wb") as said:
        process = warm.start(["serve", *data], stdout=said.fileno(), stderr=said.fileno())
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(9)
    process.wait(60)
    assert process.poll() is not None
    process.send_signal(9)  # there is none any more
