"""The JSON fields of the stats: begin here to add one.

A field that has a default here and is never set is one of a feature that Milepost has not: dashboards and
clients find the name and the value that means nothing happened. What is ours counts messages, where
upstream counts entries: `messagesBacklog` and the four states that it is made of.
"""

from __future__ import annotations

from pydantic import BaseModel, Field


class PublisherStats(BaseModel):
    accessMode: str
    msgRateIn: float
    msgThroughputIn: float
    averageMsgSize: float
    chunkedMessageRate: float = 0.0
    producerId: int
    supportsPartialProducer: bool = False
    producerName: str
    address: str
    connectedSince: str
    clientVersion: str
    metadata: dict[str, str]
    msgDropRate: float | None = None


class ConsumerStats(BaseModel):
    appId: str = ""
    msgRateOut: float
    msgThroughputOut: float
    bytesOutCounter: int
    msgOutCounter: int
    msgRateRedeliver: float
    messageAckRate: float
    chunkedMessageRate: float = 0.0
    consumerName: str
    availablePermits: int
    unackedMessages: int
    avgMessagesPerEntry: int = 0
    blockedConsumerOnUnackedMsgs: bool
    drainingHashesCount: int = 0
    drainingHashesClearedTotal: int = 0
    drainingHashesUnackedMessages: int = 0
    address: str
    connectedSince: str
    clientVersion: str
    lastAckedTimestamp: int = 0
    lastConsumedTimestamp: int = 0
    lastConsumedFlowTimestamp: int = 0
    firstMessagesSentTimestamp: int = 0
    firstConsumedFlowTimestamp: int = 0
    keyHashRanges: list[str] | None = None
    metadata: dict[str, str]


class SubscriptionStats(BaseModel):
    msgRateOut: float
    msgThroughputOut: float
    bytesOutCounter: int
    msgOutCounter: int
    msgRateRedeliver: float
    messageAckRate: float
    chunkedMessageRate: float = 0.0
    msgBacklog: int = Field(description="In entries, as upstream counts.")
    backlogSize: int = Field(description="-1 unless `subscriptionBacklogSize` is asked for.")
    earliestMsgPublishTimeInBacklog: int = 0
    msgBacklogNoDelayed: int
    blockedSubscriptionOnUnackedMsgs: bool
    msgDelayed: int
    msgInReplay: int = 0
    unackedMessages: int
    type: str
    activeConsumerName: str | None = None
    msgRateExpired: float
    msgExpired: int = 0
    totalMsgExpired: int
    lastExpireTimestamp: int
    lastConsumedFlowTimestamp: int
    lastConsumedTimestamp: int
    lastAckedTimestamp: int
    lastMarkDeleteAdvancedTimestamp: int
    consumers: list[ConsumerStats]
    isDurable: bool
    durable: bool
    isReplicated: bool = False
    replicated: bool = False
    allowOutOfOrderDelivery: bool = False
    consumersAfterMarkDeletePosition: dict[str, str] = {}
    drainingHashesCount: int = 0
    drainingHashesClearedTotal: int = 0
    drainingHashesUnackedMessages: int = 0
    nonContiguousDeletedMessagesRanges: int
    nonContiguousDeletedMessagesRangesSerializedSize: int = 0
    delayedMessageIndexSizeInBytes: int = 0
    subscriptionProperties: dict[str, str]
    msgDropRate: float | None = Field(None, description="Of non-persistent topics only.")
    filterProcessedMsgCount: int = 0
    filterAcceptedMsgCount: int = 0
    filterRejectedMsgCount: int = 0
    filterRescheduledMsgCount: int = 0
    dispatchThrottledMsgEventsBySubscriptionLimit: int = 0
    dispatchThrottledBytesEventsBySubscriptionLimit: int = 0
    dispatchThrottledMsgEventsByTopicLimit: int = 0
    dispatchThrottledBytesEventsByTopicLimit: int = 0
    dispatchThrottledMsgEventsByBrokerLimit: int = 0
    dispatchThrottledBytesEventsByBrokerLimit: int = 0
    # Milepost's own: exact, in messages.
    messagesBacklog: int
    messagesReady: int
    messagesInflight: int
    messagesDelayed: int
    messagesAcked: int
    firstIndex: int
    endIndex: int
    markDeleteIndex: int
    epoch: int


class CompactionStats(BaseModel):
    lastCompactionRemovedEventCount: int = 0
    lastCompactionSucceedTimestamp: int = 0
    lastCompactionFailedTimestamp: int = 0
    lastCompactionDurationTimeInMills: int = 0


class TopicStats(BaseModel):
    msgRateIn: float
    msgThroughputIn: float
    msgRateOut: float
    msgThroughputOut: float
    bytesInCounter: int
    msgInCounter: int
    systemTopicBytesInCounter: int = 0
    bytesOutCounter: int
    msgOutCounter: int
    bytesOutInternalCounter: int = 0
    averageMsgSize: float
    msgChunkPublished: bool
    pendingChunkedMessages: int
    storageSize: int
    backlogSize: int
    backlogQuotaLimitSize: int = -1
    backlogQuotaLimitTime: int = -1
    oldestBacklogMessageAgeSeconds: int
    oldestBacklogMessageSubscriptionName: str | None = None
    publishRateLimitedTimes: int = 0
    earliestMsgPublishTimeInBacklogs: int
    offloadedStorageSize: int = 0
    lastOffloadLedgerId: int = 0
    lastOffloadSuccessTimeStamp: int = 0
    lastOffloadFailureTimeStamp: int = 0
    ongoingTxnCount: int = 0
    abortedTxnCount: int = 0
    committedTxnCount: int = 0
    publishers: list[PublisherStats]
    waitingPublishers: int
    subscriptions: dict[str, SubscriptionStats]
    replication: dict[str, str] = {}
    deduplicationStatus: str
    topicEpoch: int | None = None
    nonContiguousDeletedMessagesRanges: int
    nonContiguousDeletedMessagesRangesSerializedSize: int = 0
    delayedMessageIndexSizeInBytes: int = 0
    compaction: CompactionStats = CompactionStats()
    ownerBroker: str
    topicCreationTimeStamp: int = 0
    lastPublishTimeStamp: int
    msgDropRate: float | None = Field(None, description="Of non-persistent topics only.")
    # Milepost's own.
    firstIndex: int
    endIndex: int
    terminated: bool = False
    refusal: str | None = None
    """Why the topic takes no messages: some are lost, or its ledgers cannot be written."""


class PartitionedTopicStats(TopicStats):
    """Sums over the partitions; indexes are each partition's own, and 0 here."""

    metadata: dict[str, int | bool]
    partitions: dict[str, TopicStats]


class LedgerStats(BaseModel):
    ledgerId: int
    entries: int
    size: int
    offloaded: bool = False
    underReplicated: bool = False
    firstIndex: int | None = None
    endIndex: int | None = None


class CursorStats(BaseModel):
    markDeletePosition: str
    readPosition: str
    waitingReadOp: bool
    pendingReadOps: int = 0
    messagesConsumedCounter: int
    cursorLedger: int = -1
    cursorLedgerLastEntry: int = -1
    individuallyDeletedMessages: str
    lastLedgerSwitchTimestamp: str = "1970-01-01T00:00:00.000Z"
    state: str = "Open"
    active: bool
    numberOfEntriesSinceFirstNotAckedMessage: int
    totalNonContiguousDeletedMessagesRange: int
    subscriptionHavePendingRead: bool = False
    subscriptionHavePendingReplayRead: bool = False
    properties: dict[str, int] = {}
    # Milepost's own: what single messages of batches are not acked, which upstream shows nowhere.
    markDeleteIndex: int
    notAckedIndexes: list[tuple[int, int]]


class InternalStats(BaseModel):
    entriesAddedCounter: int
    numberOfEntries: int
    totalSize: int
    currentLedgerEntries: int
    currentLedgerSize: int
    lastLedgerCreatedTimestamp: str
    waitingCursorsCount: int
    pendingAddEntriesCount: int
    lastConfirmedEntry: str
    state: str
    ledgers: list[LedgerStats]
    cursors: dict[str, CursorStats]
    properties: dict[str, str] = {}
    schemaLedgers: list[LedgerStats] = []
    compactedLedger: LedgerStats = LedgerStats(ledgerId=-1, entries=-1, size=-1)


class PartitionsMetadata(BaseModel):
    partitions: int
    deleted: bool = False


class PartitionedInternalStats(BaseModel):
    metadata: PartitionsMetadata
    partitions: dict[str, InternalStats]
