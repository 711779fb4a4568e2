"""docs/operating.md: its commands run as they stand there, with systemd and rsync played."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import ENVIRONMENT

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
TOPIC = "persistent://public/default/orders"

MILEPOST = """#!/bin/sh
MILEPOST_ADMIN_URL=$(sed -n 's/.*"http_url": "\\([^"]*\\)".*/\\1/p' {root}/ready 2>/dev/null)
export MILEPOST_ADMIN_URL
exec {python} -m milepost.cli.main "$@"
"""
# `systemctl start` returns when a unit of Type=notify is ready, `stop` when its process is gone.
SYSTEMCTL = """#!/bin/sh
case $1 in
start)
    {python} -m milepost.cli.main serve --data {root}/var/lib/milepost --port 0 --http-port 0 \\
        --ready-file {root}/ready >>{root}/log 2>&1 &
    echo $! >{root}/pid
    while [ ! -e {root}/ready ]; do kill -0 $! || exit 1; sleep 0.1; done ;;
stop)
    kill -TERM $(cat {root}/pid) 2>/dev/null || exit 0
    flock {root}/var/lib/milepost/lock true ;;
esac
"""
RSYNC = """#!{python}
import shutil, sys
from pathlib import Path
assert sys.argv[1:3] == ["-a", "--delete"], sys.argv
source, target = map(Path, sys.argv[3:])
target.mkdir(parents=True, exist_ok=True)
def key(path):
    return path.stat().st_size, path.stat().st_mtime_ns
for path in sorted(target.rglob("*"), reverse=True):
    if not (source / path.relative_to(target)).exists():
        path.rmdir() if path.is_dir() else path.unlink()
for path in sorted(source.rglob("*")):
    copy = target / path.relative_to(source)
    try:
        if path.is_dir():
            copy.mkdir(exist_ok=True)
        elif not copy.exists() or key(copy) != key(path):
            shutil.copy2(path, copy)
    except FileNotFoundError:
        pass  # it was deleted meanwhile, as files of a journal are
"""


class Machine:
    """A directory in place of `/`, and the programs that the page calls."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        (root / "var/lib").mkdir(parents=True)
        (root / "backup").mkdir()
        for name, text in (("milepost", MILEPOST), ("systemctl", SYSTEMCTL), ("rsync", RSYNC)):
            program = root / "bin" / name
            program.write_text(text.format(root=root, python=sys.executable))
            program.chmod(0o755)

    def run(self, block: str) -> str:
        here = re.sub(r"(?<=[\s'])(?=/(?:var|backup)/)", str(self.root), block)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", here],
            cwd=self.root,
            env={**ENVIRONMENT, "PATH": f"{self.root}/bin:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert done.returncode == 0, f"{here}\n{done.stdout}{done.stderr}"
        return done.stdout

    def messages(self) -> list[str]:
        return self.run("milepost consume orders -e").split()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.run(f"""systemctl start milepost
        milepost topics create {TOPIC}
        milepost produce orders -m one
        milepost subscriptions create orders billing""")
    yield made
    made.run("systemctl stop milepost")


def block(*words: str) -> str:
    (found,) = [one for one in BLOCKS if all(word in one for word in words)]
    return found


def test_every_block_is_tried_here() -> None:
    assert len(BLOCKS) == 5


def test_looking_making_room_and_lines_of_a_topic(machine: Machine) -> None:
    shown = machine.run(block("healthcheck"))
    assert shown.startswith("ok\n")
    assert "CAUGHT_UP" in shown
    machine.run(block("trim-topic"))
    # The two commands that stand in the text.
    text = " ".join(PAGE.read_text("utf-8").split())
    for command in (
        "milepost consume orders -e -J > orders.jsonl",
        "milepost produce orders -J < orders.jsonl",
    ):
        assert f"`{command}`" in text
        machine.run(command)
    assert machine.messages() == ["one", "one"]


def test_copies_are_taken_and_brought_back(machine: Machine) -> None:
    for words in (("cp -a /var", "stop"), ("rsync",)):
        assert machine.run(block(*words)).endswith("all intact\n")
        machine.run("milepost produce orders -m two")
        assert machine.messages() == ["one", "two"]
        machine.run(block("milepost.before"))
        assert machine.messages() == ["one"]
        machine.run("rm -r /backup/milepost /var/lib/milepost.before")
    assert "billing" in machine.run(f"milepost topics subscriptions {TOPIC}")
