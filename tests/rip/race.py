"""Races by a seed: resets against everything else, and members of a broadcast group that come and go.

Each is a world of the simulation with one subscription in which little else happens, so that more happens in
a row. Clients keep what they were ever shown, and ack it late, cumulatively too; several resets wait for the
disk at once. Before the last broker ends, the clients that are there must have got everything that is left
(promises 3, 4 and 7). `milepost.testing.checker` judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simulation.consumer import Consumer
from simulation.dials import BROADCAST, Dials
from simulation.world import DRAIN_S, World, hurried
from stage.overview import overview
from stage.stage import TOPIC
from stage.tests_on import BUCKET, TESTS_ON

from milepost.broker.operations import broadcast_members
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.broker.subscription.subscription import Subscription
from milepost.positions.names import TopicName

NAME = TopicName.parse(TOPIC)
STEPS = 24
RESETS = {
    "publish": 3, "receive": 8, "ack": 9, "give_back": 1, "reset": 4, "hang_up": 1, "hold_reads": 1,
    "hold_journal": 2, "let_go": 4, "slow": 2, "checkpoint": 1, "kill": 1,
}  # fmt: skip
BROADCASTS = {
    "publish": 4, "receive": 6, "ack": 12, "reset": 1, "hang_up": 2, "kill": 1, "pass_time": 1, "forget": 1,
    "checkpoint": 1, "count": 2,
}  # fmt: skip


class Race(World):
    """Invariant behind every step: each cursor's own, and that consumers count what the cursor counts."""

    resets_max = 4
    odds: Mapping[str, float] = RESETS
    subscriptions = ("one", "many", "keys", "spare")

    def _draw(self, steps: int) -> Dials:
        name = self.random.choice(self.subscriptions)
        return Dials(
            steps=STEPS,
            verbs=(1,),
            producers=1,
            subscriptions=[name],
            deduplicated=True,
            ledger_entries_max=1000,
            tail_size=self.random.choice((0, 1 << 20)),
            follows=0.5,
            batched=0.4,
            chunked=0.0,
            delayed=0.0,
            keys=3 if name == "keys" else 0,
            has_transactions=False,
            stored=1,
            ends_abruptly=False,
            opens_twice=False,
            on_bucket=TESTS_ON == BUCKET,
            odds=dict(self.odds),
        )

    @property
    def subscription(self) -> Subscription:
        return self.site.topic().subscriptions[self.dials.subscriptions[0]]

    def _turn(self) -> None:
        super()._turn()
        self.site.check_all()

    def _come(self, subscription: str, member: str = "") -> None:
        super()._come(subscription, member)
        self.consumers[-1].acks_old_cumulatively = True
        self.consumers[-1].flow(5)

    def _leave(self, consumer: Consumer) -> None:
        """Who comes next may ack what another one was shown."""
        super()._leave(consumer)
        self._kept.setdefault(consumer.group["sub"], []).extend(consumer.held + consumer.old)

    def _heal(self) -> None:
        """Everything is let go; whoever is there gets what is left, and then the next one does."""
        self._let_go()
        for consumer in self.consumers:
            consumer.client.reads = True
        self._turn()
        self._turn()
        assert not self.resets, "a reset was never answered"
        # The messages of a key that another consumer holds wait for its acks.
        if len(self.consumers) == 1 or (self.consumers and not self.dials.keys):
            for consumer in self.consumers:
                consumer.flow(1000)
            for seconds in DRAIN_S[:3]:
                self.clock.advance(seconds)
                self._turn()
            for sub in {consumer.group["sub"] for consumer in self.consumers}:
                self.history.note("drained", topic=TOPIC, sub=sub)
        super()._heal()


class BroadcastRace(Race):
    """Up to three clients at once, each as a member of its own. One that left may be forgotten."""

    odds = BROADCASTS
    subscriptions = (BROADCAST,)
    members: Sequence[str] = ()
    """Those that the group remembers."""

    @property
    def group(self) -> BroadcastGroup:
        assert isinstance(self.subscription, BroadcastGroup)
        return self.subscription

    def _begin(self) -> None:
        super()._begin()
        self._come(BROADCAST, "a")

    def _member_but(self, taken: set[str]) -> str:
        return self.random.choice([one for one in "abcde" if one not in taken])

    def _come(self, subscription: str, member: str = "") -> None:
        if member not in self.members:
            sub = f"{BROADCAST} {member}"
            self.history.note("subscribe", topic=TOPIC, sub=sub, group=BROADCAST)
            self.members = (*self.members, member)
            super()._come(subscription, member)
            self._turn()  # it is let in
        else:
            super()._come(subscription, member)

    def _forget(self) -> None:
        """As happens to a member that left long ago."""
        here = {consumer.name[0] for consumer in self.consumers}
        away = [one for one in self.members if one not in here]
        if away and len(self.members) > 1:
            name = self.random.choice(away)
            self.site.run(broadcast_members.forget(self.site.broker, self.group.members[name]))
            self.history.note("unsubscribe", topic=TOPIC, sub=f"{BROADCAST} {name}")
            self.members = tuple(one for one in self.members if one != name)
            self._kept.pop(f"{BROADCAST} {name}", None)

    def _count(self) -> None:
        for line in self.site.run(overview(self.site.broker, [NAME], BROADCAST)):
            sub = f"{BROADCAST} {line.member}".strip()
            parts = {
                name: getattr(line, name) for name in ("ready", "delayed", "inflight", "acked")
            }
            self.history.note(
                "counts", topic=TOPIC, sub=sub, **parts, first=line.first, end=line.end
            )


def run_races(kind: type[Race], seeds: Iterable[int]) -> None:
    """One race for each seed; an anomaly names it."""
    with hurried():
        for seed in seeds:
            race = kind(seed)
            try:
                anomalies = race.run().anomalies[:3]
            except Exception as error:
                raise AssertionError(f"{kind.__name__} {seed}: {error!r}") from error
            assert not anomalies, f"{kind.__name__} {seed}: {anomalies}"
