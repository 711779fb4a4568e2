"""The subscription that a consumer group reads by: found, or made at the first message.

A group is a Shared subscription of its name. RocketMQ 5's protocol has no broadcast: a client that wants
every message says so by the name of its group. `%BROADCAST%caches%cache-7` is the member `cache-7` of the
broadcast group `caches`, which Pulsar's clients join by properties, and has the position of that member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.subscription.broadcast import BroadcastGroup, start_rule
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import AlreadyExists, NotAllowed, ServiceNotReady, SubscriptionNotFound
from milepost.rocketmq import names
from milepost.rocketmq.remoting.group_settings import properties_for

if TYPE_CHECKING:
    from milepost.broker.broker import Broker


def find(topic: Topic, group: str) -> Subscription | None:
    """The subscription of a group, or of a member; None if there is none."""
    name, member = names.split_group(group)
    found = topic.subscriptions.get(name)
    if not member:
        return found
    found = found.members.get(member) if isinstance(found, BroadcastGroup) else None
    if found is not None:
        found.keep_up()  # a client may name an index that the member has not heard of since a restart
    return found


async def find_or_make(broker: Broker, topic: Topic, group: str) -> Subscription:
    """The same, made if it is not there; `NotAllowed` if it is of another kind."""
    name, member = names.split_group(group)
    found = topic.subscriptions.get(name)
    if found is None:
        found = await _make(broker, topic, name, is_broadcast=bool(member))
    if found is None:
        raise ServiceNotReady(f"subscription {name} of {topic.name} is being deleted")
    if not found.is_durable:
        raise NotAllowed(
            f"subscription {name} of {topic.name} is a reader: RocketMQ clients cannot join it"
        )
    if not member:
        if isinstance(found, BroadcastGroup):
            raise NotAllowed(
                f"subscription {name} of {topic.name} is a broadcast group: its members are the "
                f"consumer groups {names.BROADCAST}{name}%MEMBER"
            )
        return found
    if not isinstance(found, BroadcastGroup):
        raise NotAllowed(f"subscription {name} of {topic.name} is no broadcast group")
    return await broker.join_group(found, member)


async def _make(
    broker: Broker, topic: Topic, name: str, *, is_broadcast: bool
) -> Subscription | None:
    if not topic.policies.auto_subscriptions:
        raise SubscriptionNotFound(f"consumer group {name} of {topic.name} does not exist")
    properties = await properties_for(broker, topic.name.namespace, name)
    first, start = topic.log.first_index, start_rule({}) if is_broadcast else None
    try:
        return await broker.create_subscription(topic, name, first, properties, broadcast=start)
    except AlreadyExists:  # another client was first
        return topic.subscriptions.get(name)
