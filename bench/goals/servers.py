"""Who is measured: Milepost, Milepost of an earlier commit, and the peers that can be started."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import peers
from bench.goals.figures import BEFORE, KAFKA, OURS, PULSAR, without_paths
from bench.load.link import Link, Refused
from bench.load.target import Target, started

ROOT = Path(__file__).resolve().parents[2]
# Every append is synced before it is answered, as on the others.
KAFKA_SETTINGS = {"KAFKA_FLUSH": "1"}


class Server(NamedTuple):
    key: str
    title: str
    target: Target


class Gathered(NamedTuple):
    servers: list[Server]
    absent: dict[str, str]
    """Which peer could not be started → why."""


class NoCommit(Exception):
    """What was named is none, or has no package."""


def resolved(name: str) -> str:
    """The full name of a commit."""
    command = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        raise NoCommit(f"{name} is no commit")
    return found.stdout.strip()


@contextmanager
def earlier(commit: str) -> Iterator[Path | None]:
    """The folder with the package as it was in a commit; None if none is named."""
    if not commit:
        yield None
        return
    command = ["git", "archive", "--format=tar", resolved(commit), "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise NoCommit(f"{commit} has no sources: {done.stderr.decode().strip()}")
    packed = done.stdout
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder, "src")


@asynccontextmanager
async def gathered(before: Path | None) -> AsyncIterator[Gathered]:
    """All that can be measured in turns, each on a directory of its own."""
    async with AsyncExitStack() as stack:
        found = [Server(OURS, "Milepost", await stack.enter_async_context(started()))]
        if before is not None:
            target = await stack.enter_async_context(started(source=before))
            found.append(Server(BEFORE, "Milepost before", target))
        absent = {}
        for key, settings in ((PULSAR, {}), (KAFKA, KAFKA_SETTINGS)):
            try:
                peer = stack.enter_context(peers.running(key, settings))
            except peers.Unavailable as reason:
                absent[key] = without_paths(str(reason))
                continue
            target = Target(f"pulsar://{peer.address}", peer.pid)
            try:
                title = await _version(target) if key == PULSAR else "Apache Kafka"
            except (OSError, Refused) as error:
                absent[key] = without_paths(
                    f"said that it is ready, and does not answer: {error!r}"
                )
                continue
            found.append(Server(key, title, target))
        yield Gathered(found, absent)


async def _version(target: Target) -> str:
    """What a broker calls itself."""
    link = await Link.open(target.address)
    link.close()
    return link.server_version.replace("Pulsar Server", "Apache Pulsar ").strip()
