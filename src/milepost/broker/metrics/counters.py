"""The counters of the broker: every number that only grows.

Counting is `counters.messages_in += 1` on a plain attribute, so that it costs nothing measurable
where a message passes. A number with reasons is a mapping: `counters.frames_refused[reason] += 1`.
Reasons are constants of the code, never text from a peer, so that there are few of them.

The row of a counter says what it means and what a dashboard calls it; `rest/metrics/collector.py` reads both
when it is scraped. What can be asked of the broker's state (connections now, backlog) is not counted.
"""

# ruff: noqa: RUF009  # the calls below make fields, not values
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from milepost.errors import MilepostError
from milepost.wire.replies import ServerError

Reasons = Counter[str]
"""A reason → how often. Asking for one that never happened answers 0 and leaves no trace."""


def error_name(error: MilepostError) -> str:
    """The reason under which an error that was answered is counted: its name on the wire."""
    return wire_error_name(error.wire_code)


def wire_error_name(code: int) -> str:
    return str(ServerError.Name(code))


def _count(doc: str, pulsar: str = "") -> Any:
    """A number; `pulsar` is the metric that existing dashboards look for."""
    return field(default=0, metadata={"doc": doc, "pulsar": pulsar})


def _by_reason(doc: str) -> Any:
    return field(default_factory=Counter, metadata={"doc": doc, "pulsar": ""})


@dataclass(slots=True, repr=False, eq=False)
class Counters:
    # Connections.
    connections_opened: int = _count(
        "Connections accepted.", "pulsar_connection_created_total_count"
    )
    connections_refused: Reasons = _by_reason("Connections turned away before the handshake.")
    connections_closed: Reasons = _by_reason("Connections that ended, by who ended them and why.")
    frames_refused: Reasons = _by_reason("Frames that were not the protocol; each cost its peer.")
    lookups: int = _count("Lookups answered, over the wire and over HTTP.")

    # Transactions.
    transactions_opened: int = _count("Transactions that clients opened.")
    transactions_committed: int = _count("Transactions that ended with a commit.")
    transactions_aborted: int = _count("Transactions that ended with an abort, asked for or not.")
    transactions_timed_out: int = _count(
        "Transactions that were aborted because their time was over."
    )
    transactions_refused: int = _count(
        "Transactions that were not opened because too many were open."
    )
    transaction_facts: int = _count("Facts of the transaction coordinator that were journaled.")

    unexpected_errors: Reasons = _by_reason(
        "Errors that no code foresaw, by where they were contained: each is a bug worth reporting."
    )

    # RocketMQ clients.
    rocketmq_calls: Reasons = _by_reason("Calls of RocketMQ clients, by name.")
    rocketmq_refused: Reasons = _by_reason(
        "Calls of RocketMQ clients that were refused, by the code of the answer."
    )
    rocketmq_requests: Reasons = _by_reason("Requests of mqadmin, by name.")
    rocketmq_requests_refused: Reasons = _by_reason(
        "Requests of mqadmin that were refused, by the code of the answer."
    )
    rocketmq_leases_over: int = _count(
        "Messages that RocketMQ clients held for longer than they had asked for, and are ready again."
    )
    rocketmq_dead_letters: int = _count(
        "Messages moved to the dead-letter topic of a RocketMQ consumer group."
    )

    rocketmq_recalls: int = _count("Delayed messages that RocketMQ producers have called back.")
    rocketmq_transactions: Reasons = _by_reason(
        "Half messages of RocketMQ producers that have ended: committed, rolled back, or given up because no "
        "producer answered for them."
    )
    rocketmq_questions: int = _count(
        "Questions to RocketMQ producers how the transaction of a half message has ended."
    )

    # Rights.
    authentications_refused: Reasons = _by_reason("Credentials that did not hold.")
    authentications_renewed: int = _count("Credentials that a connected client has renewed.")
    authorizations_refused: Reasons = _by_reason("Operations that a role had not the right to.")
    rights_ended: Reasons = _by_reason("Producers and consumers closed when their right was gone.")

    # Publishing.
    entries_in: int = _count("Entries stored: messages, batches and chunks.")
    messages_in: int = _count("Messages stored.")
    bytes_in: int = _count("Bytes of the entries stored.")
    publishes_refused: Reasons = _by_reason("Publishes answered with an error.")
    duplicates_dropped: int = _count("Publishes dropped because their sequence id was used.")
    group_publishes_held: int = _count(
        "Times a connection was not read because its resource group had published enough."
    )
    reads_paused: int = _count("Times a connection was not read because it had too much under way.")

    # Schemas.
    schemas_registered: int = _count("Versions of schemas stored.")
    schemas_deleted: int = _count("Schemas deleted.")
    schemas_compatible: int = _count(
        "Schemas judged and accepted, known ones included.", "pulsar_schema_compatible_total"
    )
    schemas_incompatible: int = _count(
        "Schemas, or clients without one, that a topic's rules refused.",
        "pulsar_schema_incompatible_total",
    )
    schemas_invalid: int = _count("Schemas whose definition is not what their type asks for.")

    # Dispatch and progress.
    entries_out: int = _count("Entries sent to consumers.")
    messages_out: int = _count("Messages sent to consumers, those sent again included.")
    bytes_out: int = _count("Bytes of the entries sent to consumers.")
    messages_redelivered: int = _count("Messages sent to a consumer more than once.")
    messages_dropped: int = _count(
        "Messages of non-persistent topics that a subscription's consumers were too slow for."
    )
    acks: int = _count("Acknowledgements applied, in commands.")
    acks_refused: Reasons = _by_reason("Acknowledgements answered with an error.")
    seeks: int = _count("Seeks and resets that took effect.")
    stale_dropped: Reasons = _by_reason("Deliveries and acks of an older epoch, dropped.")

    # What policies ask for.
    messages_expired: int = _count("Messages acked because they were too old.")
    messages_evicted: int = _count("Messages acked because a backlog was past its quota.")
    subscriptions_expired: int = _count("Subscriptions deleted because no consumer had used them.")
    ledgers_trimmed: int = _count(
        "Ledgers dropped because no subscription needs them and retention is over."
    )
    producers_forgotten: int = _count(
        "Producers whose sequence ids were forgotten because they were gone for long."
    )
    quota_closes: int = _count("Producers closed because a backlog was past its quota.")
