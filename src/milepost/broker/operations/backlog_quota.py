"""Decides whether a topic is over its backlog quota, and what brings it below. Decisions, no effects.

The backlog of a topic is what lies from the first message on that a durable subscription has not acked: its
bytes, and the age of that message. Readers have no backlog, and what an open transaction keeps from being
visible is in none.

    quota = exceeded(topic, now_ms)         # Quota(limit=1073741824, policy='producer_request_hold')
    index = evicted_index(topic, quota, now_ms)
"""

from __future__ import annotations

from milepost.broker.policies.effective import EVICT, HOLD, Quota
from milepost.broker.topic.topic import Topic
from milepost.errors import QuotaExceeded, QuotaHold

# An eviction goes below the limit by this much, as upstream's does, so that it is not the next one's turn.
EVICTED_PART = 0.9


def backlog_index(topic: Topic) -> int:
    """Where the backlog begins; the visible end if there is none."""
    durable = (one for one in topic.subscriptions.values() if one.is_durable)
    return min((one.cursor.mark_delete_index + 1 for one in durable), default=topic.visible_end)


def exceeded(topic: Topic, now_ms: int) -> Quota | None:
    """The quota that the backlog is past, if it is."""
    policies = topic.policies
    if policies.quota_size is None and policies.quota_time is None:
        return None
    index = max(backlog_index(topic), topic.log.first_index)
    if index >= topic.visible_end:
        return None
    size = policies.quota_size
    if size is not None and topic.visible_size(index) >= size.limit:
        return size
    age = policies.quota_time
    if age is not None and now_ms - topic.log.locate(index).timestamp_ms > age.limit * 1000:
        return age
    return None


def refusal(topic: Topic, now_ms: int) -> QuotaHold | QuotaExceeded | None:
    """Why there may be no producers, if that is so."""
    quota = exceeded(topic, now_ms)
    if quota is None or quota.policy == EVICT:
        return None
    error = QuotaHold if quota.policy == HOLD else QuotaExceeded
    return error(f"the backlog of {topic.name} is past its quota of {quota.limit}")


def evicted_index(topic: Topic, quota: Quota, now_ms: int) -> int:
    """Up to where the oldest messages have to go for the backlog to be within the quota."""
    if quota is topic.policies.quota_time:
        return topic.log.index_at(max(now_ms - quota.limit * 1000, 0))
    return _index_within(topic, int(quota.limit * EVICTED_PART))


def _index_within(topic: Topic, size: int) -> int:
    """The first index from which on there are not more bytes than that."""
    low, high = topic.log.first_index, topic.visible_end
    while low < high:
        middle = (low + high) // 2
        if topic.visible_size(middle) <= size:
            high = middle
        else:
            low = middle + 1
    return low
