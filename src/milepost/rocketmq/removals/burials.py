"""Moves messages to the dead letters of their group.

    held by the group ──ack──┐
                             ├─▶ one record of the journal ─▶ durable: among the dead letters, acked here
    %DLQ%group ─────publish──┘

One record, so a crash at any moment leaves the message in exactly one of the two places. A message that is
asked for again while it is on its way is moved once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.messages.browse import stored_bytes
from milepost.broker.messages.message_view import MessageView
from milepost.broker.operations import leases
from milepost.broker.operations.leases import Standing
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import AlreadyExists, NotFound, ServiceNotReady
from milepost.positions.names import TopicName
from milepost.positions.ranges import Range
from milepost.rocketmq import names
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.clients import HEAD_SIZE
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.durable import moved
from milepost.rocketmq.mapping import FAULT, message_of, sealed_sends_of, sends_of
from milepost.rocketmq.sending import Sending
from milepost.wire.events import Send

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# A message of more bytes cannot be moved in one record: it stays with its group.
SIZE_MAX = 64 * 1024 * 1024


class Corpse(NamedTuple):
    """A message that is to be moved."""

    name: TopicName
    """The topic as clients name it; its partition is that of the subscription."""
    subscription: Subscription
    epoch: int
    """Of the subscription, when the message was delivered. A group that was moved since keeps it."""
    view: MessageView
    ranges: Sequence[Range]
    """What it is to the subscription: its index, or those of all its chunks."""


class _Key(NamedTuple):
    state_id: int
    """Of the subscription: each member of a broadcast group has its own."""
    epoch: int
    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here


class Burials:
    def __init__(self, broker: Broker, sending: Sending, store_host: Callable[[], str]) -> None:
        """`store_host` is the address that messages are shown with."""
        self._broker = broker
        self._sending = sending
        self._store_host = store_host
        self._under_way: dict[_Key, asyncio.Task[None]] = {}
        # Those whose record may be on the disk, though the disk did not say so: unknown until the next start.
        self._in_doubt: set[_Key] = set()

    async def bury(self, corpse: Corpse) -> None:
        """Return when the message is among the dead letters and acked, on disk. `NotFound` if the group was
        moved, or the message acked, in the meantime: nothing is among the dead letters then."""
        subscription = corpse.subscription
        assert subscription.state_id is not None, f"{subscription.name} is not durable"
        key = _Key(subscription.state_id, corpse.epoch, corpse.view.index)
        if key in self._in_doubt:
            raise Refused(
                Code.MASTER_PERSISTENCE_TIMEOUT,
                "whether the message was moved is unknown until the broker is started again",
            )
        task = self._under_way.get(key)
        if task is None:
            # It goes on when the client hangs up.
            coming = self._bury(corpse, key)
            task = self._under_way[key] = asyncio.get_running_loop().create_task(coming)
            task.add_done_callback(lambda task: self._over(key, task))
        await asyncio.shield(task)

    def _over(self, key: _Key, task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # so that asyncio does not warn if the client is gone

    async def _bury(self, corpse: Corpse, key: _Key) -> None:
        subscription, broker = corpse.subscription, self._broker
        there = names.dead_letter_topic(corpse.name, subscription.name)
        if not broker.directory.exists(there):
            with suppress(AlreadyExists):  # another message was first
                await broker.directory.create_topic(there, broker.first_doc())
        make = await self._entries(corpse, there)
        sender = await self._sending.sender(there)
        standing = leases.standing(subscription, corpse.ranges[0][0], corpse.epoch)
        if standing is not Standing.OPEN:
            raise NotFound(f"message {corpse.view.index} was moved or acked meanwhile")
        if sender.producer.is_closed:
            raise ServiceNotReady(f"{there} was closed meanwhile")
        await moved(
            broker,
            subscription,
            corpse.ranges,
            lambda: sender.publish_entries(make),
            in_doubt=lambda: self._in_doubt.add(key),
            epoch=corpse.epoch,
        )
        broker.counters.rocketmq_dead_letters += 1

    async def _entries(self, corpse: Corpse, there: TopicName) -> Callable[..., list[Send]]:
        """What makes the entries that the message becomes."""
        view, topic = corpse.view, corpse.subscription.topic
        message = message_of(
            view,
            pb.Resource(name=there.local_name),
            topic_id=topic.row.topic_id,
            queue_id=0,
            store_host=self._store_host(),
        )
        system = message.system_properties
        system.ClearField("delivery_timestamp")
        message.user_properties["DLQ_ORIGIN_TOPIC"] = corpse.name.local_name
        message.user_properties["DLQ_ORIGIN_MESSAGE_ID"] = system.message_id
        if view.fault:
            # The body cannot be unpacked here: it goes as it lies, with what its producer said of it, so that
            # others can read it who have the key.
            message.user_properties.pop(FAULT, None)
            entries = await stored_bytes(topic, corpse.ranges, self._broker.engine, SIZE_MAX)
            return partial(sealed_sends_of, message, entries)
        size_max = self._broker.settings.max_message_size - HEAD_SIZE
        return partial(sends_of, message, view.payload, size_max)
