"""The options of the set- command of each policy, and the JSON they become.

The policies themselves, with the shape of their values, are the broker's (`broker/policies/table.py`); a flag
takes its type from there unless people write it with a unit. Flags that `pulsar-admin` has for a namespace
and for a topic are both taken at either. Owns words only; never asks a broker.

    >>> given(POLICIES["retention"], {"option_0": 180, "option_1": 1024})
    {'retentionTimeInMinutes': 180, 'retentionSizeInMB': 1024}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from milepost.broker.policies.policy import Level, Policy
from milepost.broker.policies.shapes import (
    Choice,
    Json,
    Names,
    Real,
    Record,
    Several,
    Shape,
    Switch,
    Text,
)
from milepost.broker.policies.table import POLICIES
from milepost.cli.quantities import DURATION, MEGABYTES, MILLISECONDS, MINUTES, NAMES, SIZE

NEEDED: Final = object()
"""The default of an option that must be given."""


class Option(NamedTuple):
    flags: str
    """Behind one another, as `-t --time`."""
    field: str = ""
    """Of the value; empty: it is the value."""
    unit: Any = None
    """A click type for what people write with a unit; None: as the policy's shape has it."""
    default: Any = NEEDED
    off: str = ""
    """Of a switch: the flags that switch off."""


def _rate(what: str) -> tuple[Option, ...]:
    return (
        Option(f"-md --msg-{what}-rate", "dispatchThrottlingRateInMsg", default=-1),
        Option(f"-bd --byte-{what}-rate", "dispatchThrottlingRateInByte", default=-1),
        Option(f"-dt --{what}-rate-period", "ratePeriodInSecond", default=1),
        Option("-rp --relative-to-publish-rate", "relativeToPublishRate", default=False),
    )


def _switch(field: str = "", default: Any = NEEDED) -> Option:
    return Option("-e --enable", field, default=default, off="-d --disable")


OPTIONS: Final[dict[str, tuple[Option, ...]]] = {
    "retention": (
        Option("-t --time", "retentionTimeInMinutes", MINUTES),
        Option("-s --size", "retentionSizeInMB", MEGABYTES),
    ),
    "message_ttl": (Option("-t -ttl --ttl --messageTTL", unit=DURATION),),
    "subscription_expiration": (Option("-t --time"),),
    "delayed_delivery": (
        _switch("active"),
        Option("-t --time", "tickTime", MILLISECONDS, default=1000),
        Option("-md --maxDelay", "maxDeliveryDelayInMillis", MILLISECONDS, default=0),
    ),
    "deduplication": (_switch(),),
    "deduplication_snapshot_interval": (Option("-i --interval"),),
    "publish_rate": (
        Option("-m --msg-publish-rate", "publishThrottlingRateInMsg", default=-1),
        Option("-b --byte-publish-rate", "publishThrottlingRateInByte", default=-1),
    ),
    "dispatch_rate": _rate("dispatch"),
    "subscription_dispatch_rate": _rate("dispatch"),
    "replicator_dispatch_rate": _rate("dispatch"),
    "subscribe_rate": (
        Option("-sr --subscribe-rate", "subscribeThrottlingRatePerConsumer", default=-1),
        Option("-st --subscribe-rate-period", "ratePeriodInSecond", default=30),
    ),
    "max_message_size": (Option("-m --max-message-size", unit=SIZE),),
    "max_producers": (Option("-p --max-producers --max-producers-per-topic"),),
    "max_consumers": (Option("-c --max-consumers --max-consumers-per-topic"),),
    "max_consumers_per_subscription": (Option("-c --max-consumers-per-subscription"),),
    "max_subscriptions": (Option("-m -s --max-subscriptions-per-topic"),),
    # The second long name is upstream's own, for a namespace.
    "max_unacked_per_consumer": (Option("-m -c --maxNum --max-unacked-messages-per-topic"),),
    "max_unacked_per_subscription": (
        Option("-m -c --maxNum --max-unacked-messages-per-subscription"),
    ),
    "max_topics": (Option("-t --max-topics-per-namespace"),),
    "auto_topic_creation": (
        _switch("allowAutoTopicCreation"),
        Option("-t --type", "topicType", default="non-partitioned"),
        Option("-n --num-partitions", "defaultNumPartitions", default=None),
    ),
    "auto_subscription_creation": (_switch("allowAutoSubscriptionCreation", default=False),),
    "subscription_types": (Option("-t --types"),),
    "schema_compatibility": (Option("-c -s --compatibility --strategy"),),
    "schema_validation": (_switch(default=False),),
    "schema_auto_update": (_switch(),),
    "encryption_required": (_switch(),),
    "compaction_threshold": (Option("-t --threshold", unit=SIZE),),
    "inactive_topics": (
        Option(
            "-e --enable-delete-while-inactive",
            "deleteWhileInactive",
            off="-d --disable-delete-while-inactive",
        ),
        Option("-t --max-inactive-duration", "maxInactiveDurationSeconds", DURATION),
        Option("-m --delete-mode", "inactiveTopicDeleteMode"),
    ),
    "persistence": (
        Option("-e --bookkeeper-ensemble", "bookkeeperEnsemble", default=2),
        Option("-w --bookkeeper-write-quorum", "bookkeeperWriteQuorum", default=2),
        Option("-a --bookkeeper-ack-quorum", "bookkeeperAckQuorum", default=2),
        Option("-r --ml-mark-delete-max-rate", "managedLedgerMaxMarkDeleteRate", default=-1),
    ),
    # Nothing to say: that it is set is all of it.
    "dispatcher_pause": (),
    "replication_clusters": (Option("-c --clusters"),),
    "offload": (
        Option("-d --driver", "managedLedgerOffloadDriver"),
        Option("-r --region", "s3ManagedLedgerOffloadRegion", default=None),
        Option("-b --bucket", "s3ManagedLedgerOffloadBucket", default=None),
        Option("-e --endpoint", "s3ManagedLedgerOffloadServiceEndpoint", default=None),
        Option("-ro --s3-role", "s3ManagedLedgerOffloadRole", default=None),
        Option(
            "-rsn --s3-role-session-name", "s3ManagedLedgerOffloadRoleSessionName", default=None
        ),
        Option("-mbs --maxBlockSize", "s3ManagedLedgerOffloadMaxBlockSizeInBytes", SIZE, None),
        Option("-rbs --readBufferSize", "s3ManagedLedgerOffloadReadBufferSizeInBytes", SIZE, None),
        Option(
            "-oae -dl --offloadAfterElapsed",
            "managedLedgerOffloadDeletionLagInMillis",
            MILLISECONDS,
            None,
        ),
        Option(
            "-oat -t --offloadAfterThreshold", "managedLedgerOffloadThresholdInBytes", SIZE, None
        ),
        Option(
            "-oats -ts --offloadAfterThresholdInSeconds",
            "managedLedgerOffloadThresholdInSeconds",
            DURATION,
            None,
        ),
        Option("-orp --offloadedReadPriority", "managedLedgerOffloadedReadPriority", default=None),
    ),
    "resource_group": (Option("-rgn --resource-group-name"),),
    "entry_filters": (Option("-efn --entry-filters-name", "entryFilterNames"),),
    "anti_affinity": (Option("-g --group"),),
    "bookie_affinity": (
        Option("-pg --primary-group", "bookkeeperAffinityGroupPrimary"),
        Option("-sg --secondary-group", "bookkeeperAffinityGroupSecondary", default=None),
    ),
    "metric_property_keys": (Option("-k --keys"),),
}

# The words of commands are made from the last part of the path, but for these.
_WORDS: Final[dict[tuple[Level, str], tuple[str, ...]]] = {
    (Level.NAMESPACE, "schema_validation"): ("schema-validation-enforce",),
    (Level.TOPIC, "schema_validation"): ("schema-validation-enforce",),
    (Level.TOPIC, "deduplication"): ("deduplication", "deduplication-enabled"),
    (Level.TOPIC, "max_producers"): ("max-producers", "maxProducers"),
    (Level.TOPIC, "replication_clusters"): ("replication-clusters",),
    (Level.TOPIC, "entry_filters"): ("entry-filters-per-topic", "entry-filters"),
    (Level.NAMESPACE, "anti_affinity"): ("anti-affinity-group",),
    (Level.NAMESPACE, "resource_group"): ("resource-group",),
    (Level.NAMESPACE, "bookie_affinity"): ("bookie-affinity-group",),
    (Level.TOPIC, "max_subscriptions"): ("max-subscriptions", "max-subscriptions-per-topic"),
    (Level.TOPIC, "max_unacked_per_consumer"): (
        "max-unacked-messages-per-consumer",
        "max-unacked-messages-on-consumer",
    ),
    (Level.TOPIC, "max_unacked_per_subscription"): (
        "max-unacked-messages-per-subscription",
        "max-unacked-messages-on-subscription",
    ),
}

_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def words_of(policy: Policy, level: Level) -> tuple[str, ...]:
    """What stands behind `get-`, `set-` and `remove-`: the word that help shows, then older ones."""
    route = policy.route(level)
    assert route is not None, policy.name
    return _WORDS.get((level, policy.name), (_HUMP.sub("-", route.path).lower(),))


def parameters_of(policy: Policy) -> list[click.Option]:
    """The options of `set-…`."""
    found = []
    for place, option in enumerate(OPTIONS[policy.name]):
        shape = shape_of(policy, option)
        flags = option.flags.split()
        # Each is found again by its place: fields are no names of arguments.
        names = [f"option_{place}"]
        settings: dict[str, Any] = {"help": f"{option.field or policy.doc}"}
        if isinstance(shape, Switch):
            found.append(click.Option([*flags, *names], is_flag=True, **settings))
            if option.off:
                found.append(
                    click.Option([*option.off.split(), f"off_{place}"], is_flag=True, **settings)
                )
            continue
        kind = option.unit or _kind(shape)
        if option.default is NEEDED:
            settings["required"] = True
        else:
            settings |= {"default": option.default, "show_default": option.default is not None}
        found.append(click.Option([*flags, *names], type=kind, **settings))
    return found


def given(policy: Policy, values: Mapping[str, Any]) -> Json:
    """The value of a policy from what the options of `parameters_of` said."""
    parts: dict[str, Json] = {}
    for place, option in enumerate(OPTIONS[policy.name]):
        value = values[f"option_{place}"]
        if option.off and isinstance(shape_of(policy, option), Switch):
            off = values[f"off_{place}"]
            if (value == off) and (value or option.default is NEEDED):
                on_flag, off_flag = option.flags.split()[-1], option.off.split()[-1]
                raise click.UsageError(f"give either {on_flag} or {off_flag}")
        if value is not None:
            parts[option.field] = value
    return parts.get("", parts) if OPTIONS[policy.name] else True


def shape_of(policy: Policy, option: Option) -> Shape:
    shape = policy.shape
    if not option.field:
        return shape
    assert isinstance(shape, Record), policy.name
    return shape.fields[option.field][0]


def _kind(shape: Shape) -> Any:
    if isinstance(shape, Choice):
        return click.Choice(shape.names, case_sensitive=False)
    if isinstance(shape, Several | Names):
        return NAMES
    if isinstance(shape, Text):
        return click.STRING
    return click.FLOAT if isinstance(shape, Real) else click.INT


def policy_of(level: Level, word: str) -> Policy | None:
    """The policy that a word means at a level."""
    for policy in POLICIES.values():
        route = policy.route(level)
        if route is not None and not route.kind and word in words_of(policy, level):
            return policy
    return None
