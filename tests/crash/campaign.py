"""Campaigns: a workload run once, then judged after every crash that could have ended it.

One image is judged in full: recovered, compared with the history, recovered a second time (which must
change nothing), used again (indexes stay dense, nobody who had an answer moves), and recovered a third
time. `MILEPOST_IMAGES_FACTOR` in the environment multiplies how much of it is done; without it a run of the
tests, which is the same each time, does a third or less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from stage.counts import campaign_count

from crash.checker import Problem
from crash.machine import Machine
from milepost.testing import Image

FACTOR = campaign_count("MILEPOST_IMAGES_FACTOR", 0, 20)
IS_SHORT = not FACTOR


def scaled(number: int, share: int = 3) -> int:
    """So many times the factor; without one a share of them."""
    return number * FACTOR or -(-number // share)


def judge(image: Image, *, checkpoint: bool = False) -> list[Problem]:
    """Everything that is wrong with the machine that this image becomes."""
    try:
        return list(_judge(image, checkpoint))
    except Exception as error:
        # No damage was done to the disk: whatever is raised is a promise broken.
        return [Problem("refused", "", f"{type(error).__name__}: {error}")]


def _judge(image: Image, checkpoint: bool) -> Iterator[Problem]:
    machine = Machine.from_image(image, traced=False)
    yield from machine.problems()
    if machine.store.report.damages:
        yield Problem("false-alarm", "", f"damage reported: {machine.store.report.damages}")
    before = machine.state()
    machine.kill()
    if machine.state() != before:
        yield Problem("unstable-recovery", "", "the second recovery gave another state")
    machine.settle()
    use(machine)
    if checkpoint:
        machine.checkpoint()
    machine.kill()
    yield from machine.problems()


def use(machine: Machine) -> None:
    """A little of everything that must still work."""
    for topic in list(machine.topics):
        machine.publish(topic, 1, 3)
    for topic, name in list(machine.subscriptions):
        machine.ack(topic, name, 2)
    machine.pump()
    for topic, name in list(machine.subscriptions):
        machine.ack(topic, name, 1)
    machine.pump()


@dataclass
class Tally:
    """What a campaign did, for its last line."""

    operations: int = 0
    points: set[tuple[int, int]] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def images(self) -> int:
        return self.outcomes.total()

    def add(self, seed: int, image: Image, problems: list[Problem]) -> None:
        self.points.add((seed, image.point))
        self.outcomes[image.outcome.partition(" ")[0]] += 1
        if problems:
            shown = "; ".join(f"{p.anomaly} {p.topic}: {p.text}" for p in problems[:3])
            self.failures.append(f"seed {seed}: {image.description}: {shown}")

    def summary(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.outcomes.most_common())
        return (
            f"{self.images} crash images of {self.operations} operations, stopped at "
            f"{len(self.points)} points ({kinds}): {len(self.failures)} anomalies"
        )
