"""The table of settings: begin here to add one.

`Settings` is the table. A row is a name, a type, a default, a range, a sentence, and the key or keys
by which Pulsar's `broker.conf` calls the same thing. The documentation, the checks, the environment's
names and `milepost config show` are made from it; nothing else lists the settings.

Reading files, variables and flags is the command line's business (`cli/server/sources.py`); a program that
embeds the broker gives values. Either way a value out of its range does not get in.

    >>> Settings(port=0, max_message_size=10 * MIB).max_message_size
    10485760
    >>> Settings(port=70000)
    Traceback (most recent call last):
    ...
    milepost.errors.InvalidSetting: port = 70000: expected a whole number from -1 to 65535
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from milepost.broker.settings import advertised_listeners
from milepost.broker.settings.policy_settings import PolicySettings
from milepost.broker.settings.security_settings import SecuritySettings
from milepost.broker.settings.setting import (
    GIB,
    HIDDEN,
    KIB,
    MIB,
    Alias,
    Setting,
    choice,
    count,
    duration,
    path,
    size,
    switch,
    text,
)
from milepost.errors import InvalidSetting, InvalidTopicName, UnknownListener
from milepost.positions.names import NamespaceName
from milepost.schemas.compatibility import Strategy
from milepost.storage.bucket.address import check_endpoint, check_region, check_url
from milepost.storage.bucket.manifest import SHARDS_MAX

if TYPE_CHECKING:
    from pathlib import Path

_DAY_S = 24 * 3600

# Of the setting `workers`.
ONE_WORKER, AUTO_WORKERS = "1", "auto"
WORKERS_MAX = 64
# Of the setting `shards`.
AUTO_SHARDS = "auto"
ROCKETMQ_PORTS = (
    "rocketmq_port",
    "rocketmq_tls_port",
    "rocketmq_namesrv_port",
    "rocketmq_namesrv_tls_port",
)
# Hosts that are no address: every one of the machine.
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SecuritySettings, PolicySettings):
    """What one broker was told. Every value is within its range, however it was made."""

    # Where it lives and listens.
    data: Path = path(  # noqa: RUF009  # makes a field, not a value
        "data", "The data directory; made if it is missing, one process at a time."
    )
    host: str = text(
        "127.0.0.1", "The address to listen on; `0.0.0.0` for every interface.", "bindAddress"
    )
    port: int = count(
        6650,
        "Where clients connect; 0 takes a free port, -1 has none but `tls_port`.",
        Alias("brokerServicePort", empty=-1),
        low=-1,
        high=65535,
    )
    http_port: int = count(
        8080,
        "REST, HTTP lookup and metrics; 0 takes a free port, -1 has none but `https_port`.",
        Alias("webServicePort", empty=-1),
        low=-1,
        high=65535,
    )
    rocketmq_port: int = count(
        -1,
        "Where RocketMQ 5 clients connect (gRPC); 0 takes a free port, -1 has none. Needs the extra "
        "`milepost[rocketmq]`.",
        low=-1,
        high=65535,
    )
    rocketmq_namesrv_port: int = count(
        -1,
        "Where RocketMQ's mqadmin connects, as to a name server (9876 there); 0 takes a free port, -1 has "
        "none.",
        low=-1,
        high=65535,
    )
    rocketmq_namespace: str = text(
        "public/default", "The namespace of the topics that RocketMQ clients name without one."
    )
    rocketmq_calls_max: int = count(
        8192,
        "Calls of RocketMQ clients under way at once; more are refused. Half of them may be polls that "
        "wait, a quarter streams of settings, one for each client.",
        low=16,
        high=1_000_000,
    )
    http_hosts: str = text(
        "",
        "Host names, by commas, that HTTP requests may be addressed to, beside addresses, `localhost`, "
        "`host` and `advertised_address`; `*` is any. Empty: no others where `host` is this machine "
        "only, any elsewhere.",
    )
    console_read_only: bool = switch(
        False,
        "Whether the console offers no changes. Changes that a page in a browser asks for are refused then; "
        "those of commands and clients are not.",
    )
    advertised_address: str = text(
        "",
        "The host name that lookups tell clients; empty takes `host`, or `localhost` where that is "
        "every interface.",
        "advertisedAddress",
    )
    advertised_listeners: str = text(
        "",
        "Addresses by the network that clients come from, `name:scheme://host:port` by commas, for "
        "clients that name a listener; `pulsar`, `pulsar+ssl`, `http` and `https` are the schemes.",
        "advertisedListeners",
    )
    internal_listener_name: str = text(
        "internal",
        "The listener whose addresses clients are told that name none.",
        "internalListenerName",
    )
    cluster_name: str = text(
        "standalone",
        "The `cluster` label of the metrics, and whose a bucket is.",
        "clusterName",
    )

    # Exactness.
    batch_index_ack: bool = switch(
        True,
        "Keep acknowledgements of single messages of a batch (PIP-54).",
        "acknowledgmentAtBatchIndexLevelEnabled",
        weakens="an ack of one message of a batch is forgotten until its whole batch is acked",
    )
    broker_entry_metadata: bool = switch(
        True,
        "Each entry has the index of its last message and the broker's time (PIP-70). A Pulsar conf "
        "that names interceptors keeps it on, and one that names none changes nothing.",
        Alias("brokerEntryMetadataInterceptors", names_classes=True),
        weakens="consumers and `getMessageIdByIndex` cannot know the index of a message",
    )
    expose_broker_entry_metadata: bool = switch(
        True,
        "Send broker entry metadata to clients that understand it.",
        "exposingBrokerEntryMetadataToClientEnabled",
        weakens="clients do not see the index of a message",
    )

    # Connections.
    max_connections: int = count(
        0, "Connections at once; 0 is no limit but the system's.", "brokerMaxConnections", live=True
    )
    max_connections_per_ip: int = count(
        0,
        "Connections at once from one address; 0 is no limit.",
        "brokerMaxConnectionsPerIp",
        live=True,
    )
    handshake_timeout_s: float = duration(
        10, "A connection that has not said CONNECT by then is closed.", low=0.01, high=3600
    )
    keep_alive_interval_s: float = duration(
        30,
        "A silent peer is asked after this long, and closed when as much passes again.",
        "keepAliveIntervalSeconds",
        low=0.01,
        high=3600,
    )
    write_buffer_size: int = size(
        256 * KIB,
        "Dispatch to a connection pauses while this much waits to be sent to it.",
        "pulsarChannelWriteBufferHighWaterMark",
        low=4 * KIB,
        high=GIB,
    )
    max_memory: int = size(
        0,
        "The broker's memory bound; 0 is a quarter of the machine's, or of the container's.",
        high=1024 * GIB,
    )
    shutdown_timeout_s: float = duration(
        10,
        "How long a stop may drain. What was answered is on disk before and after it.",
        Alias("brokerShutdownTimeoutMs", 0.001),
        high=3600,
    )

    # Publishing.
    max_message_size: int = size(
        5 * MIB,
        "The largest message or batch; clients cut larger ones into chunks.",
        "maxMessageSize",
        low=KIB,
        high=512 * MIB,
    )
    max_pending_publish_requests_per_connection: int = count(
        1000,
        "Publishes under way on one connection before the broker stops reading from it.",
        ("maxPendingPublishRequestsPerConnection", "maxPendingPublishdRequestsPerConnection"),
        low=1,
        high=1_000_000,
    )
    max_pending_chunked_messages_per_topic: int = count(
        1000,
        "Chunked messages of a topic whose last chunk is still to come; a producer that begins one more "
        "is refused. What got no chunk for an hour does not count; 0 is no limit.",
        live=True,
    )
    max_pending_chunked_messages_per_producer: int = count(
        100, "The same for one producer; official clients have one at a time.", live=True
    )
    max_chunks_per_message: int = count(5000, "Chunks of one message; 0 is no limit.", live=True)
    deduplication: bool = switch(
        False,
        "Drop publishes whose sequence id a producer already used.",
        "brokerDeduplicationEnabled",
        live=True,
    )
    deduplication_inactive_s: float = duration(
        6 * 3600,
        "How long a producer has to be gone for its sequence ids to be forgotten. A restart begins it anew.",
        Alias("brokerDeduplicationProducerInactivityTimeoutMinutes", 60),
        low=1,
        high=365 * 24 * 3600,
    )

    # Topics.
    allow_auto_topic_creation: bool = switch(
        True, "Create a topic when a client first names it.", "allowAutoTopicCreation", live=True
    )
    allow_auto_topic_creation_type: str = choice(
        "non-partitioned",
        ("non-partitioned", "partitioned"),
        "What such a topic is.",
        "allowAutoTopicCreationType",
        live=True,
    )
    default_num_partitions: int = count(
        1,
        "Partitions of a topic made so, if partitioned.",
        "defaultNumPartitions",
        low=1,
        high=10_000,
        live=True,
    )
    allow_auto_subscription_creation: bool = switch(
        True,
        "Create a subscription when a consumer first names it.",
        "allowAutoSubscriptionCreation",
        live=True,
    )
    enable_non_persistent_topics: bool = switch(
        True, "Allow topics whose messages are not stored.", "enableNonPersistentTopics"
    )
    subscription_pattern_length_max: int = count(
        50,
        "Characters of a topic pattern that the broker matches for a client.",
        "subscriptionPatternMaxLength",
        low=1,
        high=10_000,
    )
    max_partitions_per_topic: int = count(
        10_000,
        "Partitions of one topic; 0 is no limit.",
        "maxNumPartitionsPerPartitionedTopic",
        live=True,
    )
    max_topics_per_namespace: int = count(
        0, "Topics of one namespace; 0 is no limit.", "maxTopicsPerNamespace", live=True
    )
    max_producers_per_topic: int = count(
        0, "Producers connected to one topic; 0 is no limit.", "maxProducersPerTopic", live=True
    )
    max_subscriptions_per_topic: int = count(
        0, "Subscriptions of one topic; 0 is no limit.", "maxSubscriptionsPerTopic", live=True
    )
    max_consumers_per_topic: int = count(
        0, "Consumers connected to one topic; 0 is no limit.", "maxConsumersPerTopic", live=True
    )
    max_consumers_per_subscription: int = count(
        0,
        "Consumers connected to one subscription; 0 is no limit.",
        "maxConsumersPerSubscription",
        live=True,
    )

    # Transactions.
    transaction_coordinator_enabled: bool = switch(
        True, "Let clients open transactions.", "transactionCoordinatorEnabled"
    )
    max_active_transactions_per_coordinator: int = count(
        100_000,
        "Transactions open at once; 0 is no limit.",
        "maxActiveTransactionsPerCoordinator",
        live=True,
    )
    transaction_timeout_max_s: float = duration(
        24 * 3600,
        "The longest time-out that a transaction may have.",
        low=0.001,
        high=30 * 24 * 3600,
        live=True,
    )
    transaction_parts_max: int = count(
        10_000, "Topics and subscriptions of one transaction.", low=1, high=1_000_000, live=True
    )

    # Schemas.
    schema_compatibility_strategy: str = choice(
        Strategy.FULL.value,
        tuple(strategy.value for strategy in Strategy),
        "What a new schema must be to those a topic has, where its namespace says nothing.",
        "schemaCompatibilityStrategy",
        live=True,
    )
    schema_validation_enforced: bool = switch(
        False,
        "Refuse producers without a schema on topics that have one.",
        "isSchemaValidationEnforced",
        live=True,
    )
    allow_auto_update_schema: bool = switch(
        True,
        "Let clients add versions of a schema by using them, where their namespace says nothing.",
        "isAllowAutoUpdateSchemaEnabled",
        live=True,
    )
    max_schema_versions_per_topic: int = count(
        1000, "Versions of one topic's schema; 0 is no limit."
    )

    # Dispatch.
    broadcast_member_expiry_s: float = duration(
        _DAY_S,
        "A member of a broadcast group that left this long ago is forgotten; one that is connected never.",
        low=1,
        high=3650 * _DAY_S,
    )
    max_unacked_messages_per_consumer: int = count(
        50_000,
        "Messages inflight at one consumer of a shared subscription; 0 is no limit.",
        "maxUnackedMessagesPerConsumer",
        live=True,
    )
    max_unacked_messages_per_subscription: int = count(
        200_000,
        "Messages inflight on one shared subscription; 0 is no limit.",
        "maxUnackedMessagesPerSubscription",
        live=True,
    )
    dispatch_read_entries: int = count(
        1000, "Entries in one read from a log.", "dispatcherMaxReadBatchSize", low=1, high=100_000
    )
    dispatch_read_size: int = size(
        5 * MIB, "Bytes in one read from a log.", "dispatcherMaxReadSizeBytes", low=KIB, high=GIB
    )
    dispatch_round_robin_entries: int = count(
        20,
        "Entries to one consumer of a shared subscription before the next has its turn.",
        "dispatcherMaxRoundRobinBatchSize",
        low=1,
        high=100_000,
    )
    key_shared_consistent_hashing: bool = switch(
        True,
        "Keys of a Key_Shared subscription find their consumers on a ring of hashes; off: a consumer "
        "that comes takes half of the widest range of them.",
        "subscriptionKeySharedUseConsistentHashing",
    )

    key_shared_look_ahead_per_consumer: int = count(
        2000,
        "Messages that a Key_Shared subscription may pass over for each connected consumer, because "
        "theirs has no room or their key is with another; then all wait. 0: no limit.",
        "keySharedLookAheadMsgInReplayThresholdPerConsumer",
        high=10_000_000,
    )
    key_shared_look_ahead_per_subscription: int = count(
        20_000,
        "The same for all consumers of a subscription together; the lower of the two holds.",
        "keySharedLookAheadMsgInReplayThresholdPerSubscription",
        high=100_000_000,
    )

    # Several processes, several brokers, a bucket.
    workers: str = text(
        ONE_WORKER,
        "Processes that serve as one broker, each with a share of the topics: a number, or `auto` for one a "
        "core. The number of a data directory stays as it was first.",
    )
    worker_port: int = count(
        0,
        "Where workers listen for the clients of their own topics: this port and those behind it, two "
        "for each worker with `tls_port`; 0 takes free ones.",
        high=65535,
    )
    worker_hang_s: int = count(
        30,
        "A worker, a process of a shard or the agent of a broker that has stood still for this many seconds "
        "is killed and started again; 0: none is.",
        high=86_400,
    )
    bucket: str = text(
        "",
        "Keep everything durable in a bucket: `s3://name/prefix`, `gs://…`, `az://…`, or `file:///folder`; "
        "the data directory is then a cache. Empty: in the data directory.",
    )
    shards: str = text(
        "",
        "Serve the bucket together with other brokers: into how many shards its topics are divided, or "
        "`auto` for as many as it has, and twice the cores for a new one. The number of a bucket stays as "
        "it was first. Empty: alone.",
    )
    cluster_port: int = count(
        0,
        "Where the brokers of a cluster reach each other: on this port it is heard whether this one is "
        "there, and on those behind it, one for each shard, calls are answered; 0 takes free ones. Only "
        "the brokers should reach them.",
        high=65535,
    )
    cluster_tls: bool = switch(
        False,
        "Brokers of a cluster talk to each other over TLS: each shows `tls_certificate_file`, which has to "
        "be of its advertised address, and takes peers that one of `tls_trust_certs_file` has signed. All "
        "brokers of a cluster, or none.",
    )
    balance_by_load: bool = switch(
        True,
        "A broker of a cluster gives a shard away when its shards take much more processor time than those "
        "of another. `false`: only when it has two shards more.",
    )
    bucket_endpoint: str = text(
        "",
        "The address of an object store other than the public one, such as `http://127.0.0.1:9000`.",
    )
    bucket_region: str = text(
        "", "The region of the bucket; empty: as the environment of the broker says."
    )
    bucket_linger_s: float = duration(
        0.1,
        "How long records wait for others to be sent to the bucket with them, while others are on their "
        "way; a record that comes alone never waits.",
        high=10,
    )
    bucket_pending_publishes: int = count(
        20_000,
        "On a bucket, `max_pending_publish_requests_per_connection` holds only while this many publishes of "
        "all connections are under way: a store answers later than a disk, so it takes more of them to "
        "keep the broker busy.",
        high=10_000_000,
    )
    bucket_cache_size: int = size(
        4 * GIB,
        "How much of the ledgers in the bucket each shard keeps on the local disk; those that were read "
        "longest ago are dropped first, and brought again when they are read. Ledgers that still grow are "
        "kept beside that.",
        low=64 * MIB,
        high=1024 * GIB,
    )
    # Storage.
    journal_size_max: int = size(
        64 * MIB,
        "A checkpoint is due when the journal has grown by this much.",
        low=MIB,
        high=16 * GIB,
    )
    journal_shortcut_s: float = duration(
        0.001,
        "While the disk takes less than this for a sync, all but large groups are synced without a thread; "
        "0 leaves all to one.",
        high=1,
    )
    journal_ahead_size: int = size(
        MIB,
        "Zeros that lie ready ahead of the journal's end, so that a sync has less to store; 0: none.",
        high=GIB,
    )
    tail_cache_size: int = size(
        64 * MIB,
        "What was just written is dispatched from this much memory.",
        Alias("managedLedgerCacheSizeMB", MIB),
        high=256 * GIB,
    )
    ledger_entries_max: int = count(
        500_000,
        "A ledger is rolled when it has this many entries…",
        "managedLedgerMaxEntriesPerLedger",
        low=1,
        high=100_000_000,
    )
    ledger_size_max: int = size(
        256 * MIB,
        "… or is this large …",
        Alias("managedLedgerMaxSizePerLedgerMbytes", MIB),
        low=KIB,
        high=3 * GIB,
    )
    ledger_age_max_s: int = count(
        4 * 3600,
        "… or is this old, in seconds.",
        Alias("managedLedgerMaxLedgerRolloverTimeMinutes", 60),
        low=1,
        high=365 * _DAY_S,
    )

    def __post_init__(self) -> None:
        for name, setting in TABLE.items():
            value = getattr(self, name)
            if not setting.accepts(value):
                shown = HIDDEN if setting.secret else repr(value)
                raise InvalidSetting(f"{name} = {shown}: expected {setting.allowed}")
        for plain, encrypted in (("port", "tls_port"), ("http_port", "https_port")):
            if getattr(self, plain) < 0 and getattr(self, encrypted) < 0:
                raise InvalidSetting(
                    f"{plain} = {getattr(self, plain)} and {encrypted} = {getattr(self, encrypted)}: "
                    f"one of the two ports must be open; 0 takes any free port"
                )
        advertised_listeners.parse(self.advertised_listeners)
        _check_namespace("rocketmq_namespace", self.rocketmq_namespace)
        _check_host("advertised_address", self.advertised_address)
        if self.bucket:
            check_url(self.bucket)
            check_endpoint(self.bucket_endpoint)
            check_region(self.bucket_region)
        if self.workers != ONE_WORKER:
            self._check_workers()
        if self.shards:
            self._check_shards()

    def _check_shards(self) -> None:
        written = self.shards
        number = int(written) if written.isascii() and written.isdigit() and len(written) < 3 else 0
        if written != AUTO_SHARDS and not 1 <= number <= SHARDS_MAX:
            raise InvalidSetting(
                f"shards = {written[:80]!r}: expected a whole number from 1 to {SHARDS_MAX}, or "
                f"{AUTO_SHARDS}"
            )
        if not self.bucket:
            raise InvalidSetting(f"shards = {written} without bucket: brokers share a bucket")
        if self.workers != ONE_WORKER:
            raise InvalidSetting(
                f"shards = {written} and workers: each shard of a bucket has a process of its own"
            )
        for other in ROCKETMQ_PORTS:
            if getattr(self, other) >= 0:
                raise InvalidSetting(
                    f"shards = {written} and {other}: RocketMQ clients are served by one process"
                )
        needed = ("tls_certificate_file", "tls_key_file", "tls_trust_certs_file")
        missing = [name for name in needed if self.cluster_tls and not getattr(self, name)]
        if missing:
            raise InvalidSetting(f"cluster_tls = true without {', '.join(missing)}")
        if not self.advertised_address and self.host in EVERYWHERE:
            raise InvalidSetting(
                f"shards = {written} and host = {self.host!r} without advertised_address: other "
                "brokers and clients need an address of this one that they reach"
            )

    def _check_workers(self) -> None:
        written = self.workers
        number = int(written) if written.isascii() and written.isdigit() and len(written) < 3 else 0
        if written != AUTO_WORKERS and not 1 <= number <= WORKERS_MAX:
            raise InvalidSetting(
                f"workers = {written[:80]!r}: expected a whole number from 1 to {WORKERS_MAX}, or "
                f"{AUTO_WORKERS}"
            )
        for other, why in (("bucket", "workers keep their data on the local disk"),):
            if getattr(self, other):
                raise InvalidSetting(f"workers = {written} and {other}: {why}")
        for other in ROCKETMQ_PORTS:
            if getattr(self, other) >= 0:
                raise InvalidSetting(
                    f"workers = {written} and {other}: RocketMQ clients are served by one process"
                )

    @property
    def advertised_host(self) -> str:
        """The host name for clients. One that listens everywhere says `localhost`, as Pulsar's
        standalone does: right behind a published port, and to be set for anyone farther away."""
        if self.advertised_address:
            return self.advertised_address
        return "localhost" if self.host in EVERYWHERE else self.host

    def url(self, scheme: str, port: int) -> str:
        """Where clients find a port of ours; empty if there is none."""
        known = advertised_listeners.parse(self.advertised_listeners)
        advertised = advertised_listeners.default(known, self.internal_listener_name, scheme)
        return advertised or _url(scheme, self.advertised_host, port)

    def worker_url(
        self, listener: str, scheme: str, port: int, host: str = "", listeners: str = ""
    ) -> str:
        """Where clients that name a listener find the own port of a worker, of this machine or of another
        host with these listeners: at the listener's host."""
        known = advertised_listeners.parse(listeners if host else self.advertised_listeners)
        internal = self.internal_listener_name
        if listener and listener not in known and listener != internal:
            raise _unknown(listener)
        if listener in known:
            return advertised_listeners.at_port(known[listener].get(scheme, ""), port)
        told = advertised_listeners.default(known, internal, scheme)
        if told:
            return advertised_listeners.at_port(told, port)
        return _url(scheme, host or self.advertised_host, port)

    def listener_url(self, listener: str, scheme: str, port: int) -> str:
        """The same for clients that name a listener; empty if it has no such address."""
        known = advertised_listeners.parse(self.advertised_listeners)
        if listener in known:
            return known[listener].get(scheme, "")
        if not listener or listener == self.internal_listener_name:
            return self.url(scheme, port)
        raise _unknown(listener)


def _url(scheme: str, host: str, port: int) -> str:
    return "" if port < 0 else f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _unknown(listener: str) -> UnknownListener:
    # The C++ client gives up on these words alone; on others it tries for ever.
    return UnknownListener(f"the broker do not have {listener[:80]} listener")


def _check_host(name: str, host: str) -> None:
    """Refuse what no client could connect to, and would be told with each lookup."""
    try:
        is_address = ":" in host and bool(ip_address(host))
        host.encode("idna")  # as a connection does
    except ValueError:
        pass
    else:
        if is_address or not re.search(r"[\s:/@\[\]]", host):
            return
    raise InvalidSetting(
        f"{name} = {host[:300]!r}: expected a host name or an IP address, without scheme and port"
    )


def _check_namespace(name: str, text: str) -> None:
    try:
        NamespaceName.parse(text)
    except InvalidTopicName as error:
        raise InvalidSetting(f"{name} = {text!r}: {error}") from None


# Setting's name → its row, in the order of the table.
TABLE: dict[str, Setting] = {
    one.name: replace(one.metadata["setting"], name=one.name)
    # What is inherited comes last.
    for one in sorted(fields(Settings), key=lambda one: one.name not in Settings.__annotations__)
}

# The first setting of each group, for the documentation.
GROUPS = {
    "data": "Where it lives and listens",
    "batch_index_ack": "Exactness",
    "max_connections": "Connections and memory",
    "max_message_size": "Publishing",
    "allow_auto_topic_creation": "Topics and subscriptions",
    "schema_compatibility_strategy": "Schemas",
    "broadcast_member_expiry_s": "Dispatch",
    "workers": "Several processes, several brokers, a bucket",
    "journal_size_max": "Storage",
    "default_retention_minutes": "Defaults of policies",
    "authentication": "Security: who is let in",
    "authorization": "Security: what they may do",
    "tls_port": "Security: how the bytes are protected",
}
assert set(GROUPS) <= set(TABLE)

PULSAR_KEYS: dict[str, tuple[Setting, Alias]] = {
    alias.key: (setting, alias) for setting in TABLE.values() for alias in setting.aliases
}
