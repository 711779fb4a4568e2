"""The progress of subscriptions and their verdicts, from Apache Pulsar's statistics.

Its backlog is in entries. What it does not tell is None: the pages show a dash. Verdicts have the names that
Milepost's have, and rest on what is told: backlog, connected consumers, whether they ask for messages, and
how fast they get and ack them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from milepost.admin.pulsar_entries import Places, acked_entries
from milepost.positions.names import TopicName
from milepost.positions.ranges import IndexRanges
from milepost.positions.severity import Verdict

Json = dict[str, Any]


def verdict_of(backlog: int, group: Json) -> tuple[Verdict, str]:
    """`group` is one of the subscriptions of a topic's statistics.

    >>> verdict_of(3, {"consumers": []})
    (<Verdict.NO_CONSUMER: 'NO_CONSUMER'>, '3 entries not acked, and no consumer is connected')
    """
    consumers = group.get("consumers") or []
    waiting = f"{backlog:,} {'entry' if backlog == 1 else 'entries'} not acked"
    delayed = int(group.get("msgDelayed") or 0)
    if not backlog:
        return Verdict.CAUGHT_UP, "everything is acked"
    if delayed and delayed >= backlog:
        return Verdict.CAUGHT_UP, f"{waiting}, all of them delayed"
    if not consumers:
        return Verdict.NO_CONSUMER, f"{waiting}, and no consumer is connected"
    unacked = int(group.get("unackedMessages") or 0)
    if group.get("blockedSubscriptionOnUnackedMsgs") or any(
        one.get("blockedConsumerOnUnackedMsgs") for one in consumers
    ):
        return (
            Verdict.STALLED,
            f"{waiting}; consumers hold {unacked:,} messages, as many as they may",
        )
    acked, out = (float(group.get(name) or 0) for name in ("messageAckRate", "msgRateOut"))
    rates = f"{acked:.1f}/s acked, {out:.1f}/s sent in the last minute"
    if acked or out:
        return Verdict.CONSUMING, f"{waiting}; {rates}"
    if all(int(one.get("availablePermits") or 0) <= 0 for one in consumers):
        return Verdict.STARVED, f"{waiting}, and no consumer asks for messages"
    if unacked:
        return Verdict.STALLED, f"{waiting}; consumers hold {unacked:,} messages and acked none"
    return Verdict.STALLED, f"{waiting}; nothing was sent or acked in the last minute"


def short_line(topic: str, name: str, group: Json, rate_in: float) -> Json:
    """A line of the overview, by the statistics alone."""
    backlog = max(int(group.get("msgBacklog") or 0), 0)
    verdict, reason = verdict_of(backlog, group)
    return {
        "topic": topic,
        "partition": TopicName.parse(topic).partition,
        "subscription": name,
        "member": "",
        "type": str(group.get("type") or ""),
        "verdict": str(verdict),
        "reason": reason,
        "backlog": backlog,
        "inflight": int(group.get("unackedMessages") or 0),
        "behind_ms": None,
        "rate_in": rate_in,
        "rate_out": float(group.get("msgRateOut") or 0),
        "rate_acked": float(group.get("messageAckRate") or 0),
        "consumers": len(group.get("consumers") or []),
    }


def progress_lines(topic: str, stats: Json, internal: Json, now_ms: int) -> list[Json]:
    """Each subscription of a topic, as `progress` of Milepost has it, in entries."""
    places = Places.of(internal)
    lines = []
    for name, group in (stats.get("subscriptions") or {}).items():
        cursor = (internal.get("cursors") or {}).get(name)
        acked = IndexRanges() if cursor is None else acked_entries(places, cursor)
        done = acked.count_within(0, places.end)
        mark = acked.next_absent(0, places.end) - 1
        earliest = int(group.get("earliestMsgPublishTimeInBacklog") or 0)
        backlog = places.end - done
        verdict, reason = verdict_of(backlog, group)
        lines.append(
            {
                **short_line(topic, name, group, float(stats.get("msgRateIn") or 0)),
                "verdict": str(verdict),
                "reason": reason,
                "is_durable": bool(group.get("isDurable", True)),
                "first": 0,
                "end": places.end,
                "mark_delete_index": mark,
                "ready": backlog,
                "inflight": 0,
                "delayed": 0,
                "acked": done,
                "backlog": backlog,
                "holes": max(sum(1 for _ in acked.gaps(0, acked.end or 0)), 0),
                "behind_ms": max(now_ms - earliest, 0) if earliest > 0 and backlog else None,
                "epoch": 0,
                "messages_out": int(group.get("msgOutCounter") or 0),
                "messages_acked": done,
                "consumers": [_consumer(one) for one in group.get("consumers") or []],
            }
        )
    return lines


def _consumer(one: Json) -> Json:
    return {
        "name": str(one.get("consumerName") or ""),
        "address": str(one.get("address") or "").removeprefix("/"),
        "client_version": str(one.get("clientVersion") or ""),
        "inflight": int(one.get("unackedMessages") or 0),
        "permits": int(one.get("availablePermits") or 0),
        "messages_out": int(one.get("msgOutCounter") or 0),
        "messages_acked": None,
        "messages_redelivered": None,
        "connected_since_ms": _time_ms(str(one.get("connectedSince") or "")),
    }


def _time_ms(text: str) -> int | None:
    """
    >>> _time_ms("2026-11-17T20:00:06.344207431Z")
    1794945606344
    """
    try:
        # Nine digits of a second are more than Python reads.
        head, _, tail = text.partition(".")
        zone = tail.lstrip("0123456789")
        return round(datetime.fromisoformat(f"{head}{zone or 'Z'}").timestamp() * 1000) + int(
            (tail[: len(tail) - len(zone)] + "000")[:3]
        )
    except ValueError:
        return None
