"""Policies that are stored and shown, and have no effect in Milepost.

Each is about something that a single process has not: copies of an entry, another cluster, a cursor that may
lose its acks. Rows of the one table (`table.py`).
"""

from __future__ import annotations

from milepost.broker.policies.policy import Policy, Route
from milepost.broker.policies.shapes import INT_MAX, LONG_MAX, Json, Real, Record, Switch, Whole


def dispatch_rate(messages: int = 0, size: int = 0) -> dict[str, Json]:
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }


DISPATCH_RATE = Record(
    {
        "dispatchThrottlingRateInMsg": (Whole(-1, INT_MAX), -1),
        "dispatchThrottlingRateInByte": (Whole(-1, LONG_MAX), -1),
        "relativeToPublishRate": (Switch(False), False),
        "ratePeriodInSecond": (Whole(1, INT_MAX, 1), 1),
    }
)

KEPT: tuple[Policy, ...] = (
    Policy(
        name="persistence",
        doc="Copies of each entry, which BookKeeper would make; one process keeps one.",
        shape=Record(
            {
                "bookkeeperEnsemble": (Whole(1, 5, 1), 1),
                "bookkeeperWriteQuorum": (Whole(1, 5, 1), 1),
                "bookkeeperAckQuorum": (Whole(1, 5, 1), 1),
                # A negative number asks for the broker's default.
                "managedLedgerMaxMarkDeleteRate": (Real(-1, 1e9), 0.0),
            }
        ),
        default=lambda settings: {
            "bookkeeperEnsemble": 1,
            "bookkeeperWriteQuorum": 1,
            "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 0.0,
        },
        namespace=Route(path="persistence"),
        topic=Route(path="persistence"),
        acts=False,
    ),
    Policy(
        name="deduplication_snapshot_interval",
        doc="Entries between two snapshots of sequence ids; checkpoints make them here.",
        shape=Whole(0, INT_MAX),
        default=lambda settings: None,
        namespace=Route(path="deduplicationSnapshotInterval", removable=False),
        topic=Route(path="deduplicationSnapshotInterval"),
        acts=False,
    ),
    Policy(
        name="replicator_dispatch_rate",
        doc="Messages and bytes in a period to another cluster; there is none.",
        shape=DISPATCH_RATE,
        default=lambda settings: dispatch_rate(),
        namespace=Route(path="replicatorDispatchRate"),
        topic=Route(path="replicatorDispatchRate"),
        acts=False,
    ),
    Policy(
        name="dispatcher_pause",
        doc="Whether dispatch stops while acks cannot be stored; every answered ack is, here.",
        shape=Switch(),
        default=lambda settings: False,
        namespace=Route(path="dispatcherPauseOnAckStatePersistent", unset=False, bare=True),
        topic=Route(path="dispatcherPauseOnAckStatePersistent", unset=False, bare=True),
        acts=False,
    ),
)
