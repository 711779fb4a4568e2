"""Policies that are accepted, stored and shown, and have no effect in Milepost.

Rows of the one table (`table.py`), of two kinds:

- `SINGLE_PROCESS`: about something that a single process does not have, such as copies of an entry, another
  cluster, or a cursor that may lose its acks.
- `NOT_BUILT`: for geo-replication, offloading and Java filters. They are checked and answered as upstream
  does where that machinery is missing too, so that scripts that set everything run to their end. What
  upstream refuses then is refused: a filter that is not installed, a cluster that does not exist.
"""

from __future__ import annotations

from typing import Final

from milepost.broker.policies.policy import Of, Policy, Route
from milepost.broker.policies.shapes import (
    INT_MAX,
    LONG_MAX,
    Choice,
    Json,
    Names,
    Real,
    Record,
    Switch,
    Text,
    Whole,
)
from milepost.errors import PolicyOutOfRange

DRIVERS: Final = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
_TEXT: Final = Text(length_max=2048)
_COUNT: Final = Whole(-1, LONG_MAX)


def dispatch_rate(messages: Json = 0, size: Json = 0) -> dict[str, Json]:
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


SINGLE_PROCESS: tuple[Policy, ...] = (
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
        default={
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
        namespace=Route(path="deduplicationSnapshotInterval", removable=False),
        topic=Route(path="deduplicationSnapshotInterval"),
        acts=False,
    ),
    Policy(
        name="replicator_dispatch_rate",
        doc="Messages and bytes in a period to another cluster; there is none.",
        shape=DISPATCH_RATE,
        default=dispatch_rate(),
        namespace=Route(path="replicatorDispatchRate"),
        topic=Route(path="replicatorDispatchRate"),
        acts=False,
    ),
    Policy(
        name="dispatcher_pause",
        doc="Whether dispatch stops while acks cannot be stored; every answered ack is, here.",
        shape=Switch(),
        default=False,
        namespace=Route(path="dispatcherPauseOnAckStatePersistent", unset=False, bare=True),
        topic=Route(path="dispatcherPauseOnAckStatePersistent", unset=False, bare=True),
        acts=False,
    ),
)


class SparseRecord(Record):
    """An object of which only those fields are kept that have a value."""

    def read(self, value: object, name: str) -> dict[str, Json]:
        read = super().read(value, name)
        return {key: found for key, found in read.items() if found is not None}


def _driver_fault(value: dict[str, Json]) -> str | None:
    driver = value["managedLedgerOffloadDriver"]
    # None at all: a threshold was set alone, by a call of its own.
    if driver is not None and driver not in DRIVERS:
        raise PolicyOutOfRange(
            f"managedLedgerOffloadDriver: expected one of {', '.join(DRIVERS)}, not {driver[:80]!a}"
        )
    buckets = [value[f"{prefix}anagedLedgerOffloadBucket"] for prefix in ("m", "s3M", "gcsM")]
    if driver not in (None, "filesystem") and not any(buckets):
        raise PolicyOutOfRange(f"managedLedgerOffloadDriver {driver} needs a bucket")
    return None


# Upstream's names and defaults.
OFFLOAD: Final = SparseRecord(
    {
        "offloadersDirectory": (_TEXT, "./offloaders"),
        "managedLedgerOffloadDriver": (Text("filesystem"), None),
        "managedLedgerOffloadMaxThreads": (Whole(0, INT_MAX, 2), 2),
        "managedLedgerOffloadReadThreads": (Whole(0, INT_MAX, 2), 2),
        "managedLedgerOffloadPrefetchRounds": (Whole(0, INT_MAX, 1), 1),
        "managedLedgerOffloadThresholdInSeconds": (_COUNT, None),
        "managedLedgerOffloadThresholdInBytes": (_COUNT, None),
        "managedLedgerOffloadDeletionLagInMillis": (_COUNT, None),
        "managedLedgerOffloadedReadPriority": (
            Choice(("bookkeeper-first", "tiered-storage-first")),
            None,
        ),
        "s3ManagedLedgerOffloadRegion": (_TEXT, None),
        "s3ManagedLedgerOffloadBucket": (_TEXT, None),
        "s3ManagedLedgerOffloadServiceEndpoint": (_TEXT, None),
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes": (Whole(0, INT_MAX, 67_108_864), 67_108_864),
        "s3ManagedLedgerOffloadReadBufferSizeInBytes": (Whole(0, INT_MAX, 1_048_576), 1_048_576),
        "s3ManagedLedgerOffloadRole": (_TEXT, None),
        "s3ManagedLedgerOffloadRoleSessionName": (_TEXT, "pulsar-s3-offload"),
        "gcsManagedLedgerOffloadRegion": (_TEXT, None),
        "gcsManagedLedgerOffloadBucket": (_TEXT, None),
        "gcsManagedLedgerOffloadMaxBlockSizeInBytes": (Whole(0, INT_MAX, 134_217_728), 134_217_728),
        "gcsManagedLedgerOffloadReadBufferSizeInBytes": (Whole(0, INT_MAX, 1_048_576), 1_048_576),
        "fileSystemProfilePath": (_TEXT, None),
        "fileSystemURI": (_TEXT, None),
        "managedLedgerOffloadBucket": (_TEXT, None),
        "managedLedgerOffloadRegion": (_TEXT, None),
        "managedLedgerOffloadServiceEndpoint": (_TEXT, None),
        "managedLedgerOffloadMaxBlockSizeInBytes": (Whole(0, INT_MAX), None),
        "managedLedgerOffloadReadBufferSizeInBytes": (Whole(0, INT_MAX), None),
    },
    _driver_fault,
)


NOT_BUILT: tuple[Policy, ...] = (
    Policy(
        name="replication_clusters",
        doc="The clusters that have copies of a topic: there is one.",
        shape=Names(),
        default=[Of("cluster_name")],
        topic=Route(path="replication"),
        acts=False,
    ),
    Policy(
        name="offload",
        doc="Where old ledgers go when they leave the disk; they stay here.",
        shape=OFFLOAD,
        namespace=Route(path="offloadPolicies", removal="removeOffloadPolicies"),
        topic=Route(path="offloadPolicies"),
        acts=False,
    ),
    Policy(
        name="entry_filters",
        doc="Classes that choose what is dispatched; there is none to choose.",
        shape=Record({"entryFilterNames": (Text("", 2048), "")}),
        default={"entryFilterNames": ""},
        namespace=Route(path="entryFilters"),
        topic=Route(path="entryFilters"),
        acts=False,
    ),
    Policy(
        name="anti_affinity",
        doc="The group of namespaces that brokers share among them; there is one broker.",
        shape=Text("spread"),
        namespace=Route(path="antiAffinity", is_plain=True),
        acts=False,
    ),
    Policy(
        name="bookie_affinity",
        doc="The groups of bookies that store a namespace; this broker stores it.",
        shape=SparseRecord(
            {
                "bookkeeperAffinityGroupPrimary": (Text("a"), None),
                "bookkeeperAffinityGroupSecondary": (Text("b"), None),
            }
        ),
        namespace=Route(path="persistence/bookieAffinity"),
        acts=False,
    ),
    Policy(
        name="metric_property_keys",
        doc="Properties of topics that metrics may have as labels; they have none.",
        shape=Names(),
        namespace=Route(path="allowedTopicPropertyKeysForMetrics"),
        acts=False,
    ),
)
