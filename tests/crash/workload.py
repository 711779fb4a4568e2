"""A scripted workload: every verb of the storage, in an order drawn from a seed.

The script leans to what breaks recovery: blocks that share a group, rolls in the middle of one,
checkpoints whose steps have other work between them, trims before a checkpoint has seen the ledger,
states closed and opened while their snapshot is being stored, a process killed with all of that going
on. The same seed gives the same operations.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from crash.machine import Killed, Machine
from milepost.errors import PersistenceError

TOPICS = ("a", "b", "c")
SUBSCRIPTIONS = ("s", "t")


class Workload:
    def __init__(self, machine: Machine, seed: int, *, tolerant: bool = False) -> None:
        """`tolerant`: the disk fails now and then; go on as a broker would."""
        self.machine = machine
        self._tolerated = (OSError, PersistenceError) if tolerant else ()
        # What the disk said no to, by the name of its error.
        self.failures: Counter[str] = Counter()
        self.draw = random.Random(f"workload/{seed}")
        self.operations = 0
        # How far a checkpoint has come: the steps that are left of it.
        self._checkpoint: list[Callable[[], None]] = []
        self._verbs: list[tuple[int, Callable[[str], None]]] = [
            (30, self._publish),
            (16, self._ack),
            (4, self._seek),
            (4, self._roll),
            (6, self._trim),
            (4, self._reopen_subscription),
            (1, self._unsubscribe),
            (1, self._delete_topic),
            (20, lambda topic: machine.pump()),
            (6, lambda topic: machine.commit()),
            (3, lambda topic: machine.finish()),
            (12, lambda topic: machine.lay()),
            (16, self._checkpoint_step),
            (2, self._kill),
            (3, self._kill_in_call),
            (4, lambda topic: machine.clock.advance(self.draw.random())),
            (1, lambda topic: machine.clock.jump(-5_000)),
        ]

    def run(self, operations: int) -> Workload:
        verbs = [verb for _, verb in self._verbs]
        weights = [weight for weight, _ in self._verbs]
        for _ in range(operations):
            (verb,) = self.draw.choices(verbs, weights)
            topic = self.draw.choice(TOPICS)
            self.operations += 1
            try:
                for name in TOPICS:
                    if name not in self.machine.topics:
                        self.machine.create_topic(name, *SUBSCRIPTIONS)
                verb(topic)
            except self._tolerated as error:
                self.failures[type(error).__name__] += 1
        return self

    def _publish(self, topic: str) -> None:
        draw = self.draw
        counts = [draw.choice((1, 1, 1, 2, 5, 64)) for _ in range(draw.choice((1, 1, 2, 3)))]
        # Now and then larger than a sector or two, so that tearing has something to tear.
        self.machine.publish(topic, *counts, size=draw.choice((0, 5, 20, 20, 700)))

    def _subscription(self, topic: str) -> str | None:
        names = sorted(name for of, name in self.machine.subscriptions if of == topic)
        return self.draw.choice(names) if names else None

    def _ack(self, topic: str) -> None:
        if name := self._subscription(topic):
            self.machine.ack(topic, name, self.draw.randint(1, 9), skip=self.draw.choice((0, 0, 3)))

    def _seek(self, topic: str) -> None:
        if name := self._subscription(topic):
            log = self.machine.logs[topic]
            self.machine.seek(topic, name, self.draw.randint(log.first_index, log.end_index))

    def _roll(self, topic: str) -> None:
        self.machine.roll(topic)

    def _trim(self, topic: str) -> None:
        log = self.machine.logs[topic]
        self.machine.trim(topic, self.draw.randint(log.first_index, log.end_index))

    def _reopen_subscription(self, topic: str) -> None:
        closed = [n for n in SUBSCRIPTIONS if (topic, n) not in self.machine.subscriptions]
        known = self.machine.history.topics[topic].states
        if closed and closed[0] in known:
            self.machine.open_subscription(topic, closed[0])
        elif name := self._subscription(topic):
            self.machine.close_subscription(topic, name)

    def _unsubscribe(self, topic: str) -> None:
        if name := self._subscription(topic):
            self.machine.unsubscribe(topic, name)
            self.machine.subscribe(topic, name)

    def _delete_topic(self, topic: str) -> None:
        self.machine.delete_topic(topic)

    def _checkpoint_step(self, topic: str) -> None:
        machine = self.machine
        if self._checkpoint:
            try:
                self._checkpoint.pop(0)()
            except self._tolerated as error:
                self._checkpoint.clear()
                if machine.plan is not None:
                    machine.finish_checkpoint(error)
                raise
        elif machine.plan is not None:
            self._checkpoint = [machine.flush, machine.record, machine.finish_checkpoint]
        elif self.draw.random() < 0.3:
            machine.pump()
            machine.begin_checkpoint()

    def _kill(self, topic: str) -> None:
        self._checkpoint.clear()
        try:
            self.machine.kill()
            self.machine.settle()
        except self._tolerated:
            # A process that cannot open its directory ends; somebody looks after the disk.
            self.failures["start"] += 1
            self.machine.files.faults.heal()
            self.machine.files.capacity = None
            self.machine.kill()
            self.machine.settle()

    def _kill_in_call(self, topic: str) -> None:
        """Written and not synced, or named and not synced: the kernel has it, the disk may not."""
        self.machine.publish(topic, 2)
        self.machine.finish()
        self.machine.die_in_next(self.draw.choice(("sync", "rename", "sync_dir")))
        with suppress(Killed):
            self.machine.begin_checkpoint()
            self.machine.pump()
        self._kill(topic)
