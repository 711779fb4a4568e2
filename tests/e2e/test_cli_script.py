"""A script for pulsar-admin runs unchanged but for the program's name, and prints what it printed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving

HERE = Path(__file__).parent
TIMEOUT_S = 120


def run_script(url: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    program = " ".join(MILEPOST)
    environment = {
        **ENVIRONMENT,
        "PULSAR_ADMIN": program,
        "PULSAR_CLIENT": program,
        "MILEPOST_ADMIN_URL": url,
        "MILEPOST_CONTEXTS": str(tmp_path / "none.json"),
    }
    return subprocess.run(
        ["sh", str(HERE / "admin_script.sh")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=TIMEOUT_S,
        check=False,
    )


def settled(shown: str) -> str:
    """What differs from run to run, replaced: times, and which ledger it was."""
    shown = re.sub(r"(time|timestamp): 1\d{12}$", r"\1: TIME", shown, flags=re.MULTILINE)
    ledger = re.search(r"Message ID: (\d+):0$", shown, re.MULTILINE)
    assert ledger is not None, shown
    shown = re.sub(rf"(ID: |is |Entry\" : \"){ledger[1]}:", r"\1LEDGER:", shown)
    return re.sub(rf'"ledgerId" : {ledger[1]},', '"ledgerId" : LEDGER,', shown)


def test_a_script_for_pulsar_admin_prints_what_it_printed(serving: Serving, tmp_path: Path) -> None:
    done = run_script(serving.ready["http_url"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert settled(done.stdout) == (HERE / "admin_script.out").read_text("utf-8")
    assert done.stderr == (
        "6 messages published to persistent://public/default/shop-orders-partition-0\n"
    )


def test_a_script_stops_where_a_command_fails(tmp_path: Path) -> None:
    done = run_script("http://127.0.0.1:1", tmp_path)
    assert done.returncode == 3
    assert done.stdout == "== create a partitioned topic\n"
    assert done.stderr.count("\n") == 1
