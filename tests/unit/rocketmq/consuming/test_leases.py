"""Leases: compared with a list that is searched from the front each time."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from stage.counts import examples

from milepost.rocketmq.consuming.leases import Lease, Leases

INDEXES = st.integers(0, 5)
CLIENTS = st.sampled_from(["a", "b"])


@dataclass
class Twin:
    """What a lease is, without a heap and without numbers that matter."""

    index: int
    client: str
    until: float
    renews_s: float
    lease: Lease = field(repr=False)


class LeaseMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.leases, self.twins, self.now = Leases(), list[Twin](), 0.0
        self.ended: list[Lease] = []

    @rule(
        index=INDEXES,
        client=CLIENTS,
        lasts=st.integers(0, 9),
        renews=st.sampled_from([0.0, 3.0]),
    )
    def grant(self, index: int, client: str, lasts: int, renews: float) -> None:
        if any(twin.index == index for twin in self.twins):
            return
        until = self.now + lasts
        lease = self.leases.grant(index, ((index, index + 1),), client, until, renews)
        self.twins.append(Twin(index, client, until, renews, lease))

    @rule(index=INDEXES, lasts=st.integers(0, 9))
    def move(self, index: int, lasts: int) -> None:
        for twin in self.twins:
            if twin.index == index:
                self.leases.move(twin.lease, self.now + lasts)
                twin.until, twin.renews_s = self.now + lasts, 0.0

    @rule(index=INDEXES)
    def end(self, index: int) -> None:
        for twin in [twin for twin in self.twins if twin.index == index]:
            self.leases.end(twin.lease)
            self.twins.remove(twin)
            self.ended.append(twin.lease)

    @rule(passed=st.integers(0, 4), alive=st.sets(CLIENTS))
    def time_passes(self, passed: int, alive: set[str]) -> None:
        self.now += passed
        over = []
        for twin in sorted(self.twins, key=lambda twin: (twin.until, twin.lease.number)):
            if twin.until > self.now:
                continue
            if twin.renews_s and twin.client in alive:
                twin.until = self.now + twin.renews_s
            else:
                over.append(twin.lease)
                self.twins.remove(twin)
        assert self.leases.take_over(self.now, alive.__contains__) == over
        self.ended += over

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "leases"):
            return
        assert len(self.leases) == len(self.twins)
        assert self.leases.next_end == min((twin.until for twin in self.twins), default=None)
        for twin in self.twins:
            assert self.leases.find(twin.index, twin.lease.number) is twin.lease
            assert self.leases.at(twin.index) is twin.lease
            assert twin.lease in self.leases.of_client(twin.client)
        for lease in self.ended:
            assert self.leases.find(lease.index, lease.number) is None


LeaseMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestLeases = LeaseMachine.TestCase


def test_moving_a_lease_again_and_again_takes_no_memory() -> None:
    leases = Leases()
    lease = leases.grant(1, ((1, 2),), "a", 1.0)
    for until in range(10_000):
        leases.move(lease, float(until))
    assert len(leases._ends) < 100
    assert leases.next_end == 9_999.0
