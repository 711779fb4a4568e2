"""Peeks: messages by id, by count, and the next ones of a subscription.

The body is the entry's payload, unpacked; a batch stays one. Everything else is in headers, by upstream's
names. Peeking reads data: it needs the right to consume.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.limits.time_slices import SHORT_WORK_S, TimeSlices
from milepost.broker.messages import entry_view, lookup_by_index
from milepost.broker.messages.backlog_walk import nth_in_backlog
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import AlreadyExists
from milepost.positions.ids import Position
from milepost.positions.labels import check_label
from milepost.rest.request import TOPIC, AskedBroker, OpenTopic, subscription_of
from milepost.rest.resources.message_ids import LONG_MAX
from milepost.rest.route_access import Router

router = Router("messages", Operation.CONSUME)

BYTES = "application/octet-stream"
_MESSAGE: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The payload; what else is known of it is in `X-Pulsar-…` headers.",
        "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}},
    }
}


class HeaderName(bytes):
    """A header's name that goes out in the case in which it is written here.

    The server writes every name in lower case. The Java admin client looks for `X-Pulsar-PROPERTY` letter
    by letter, and finds no properties otherwise.
    """

    def lower(self) -> HeaderName:
        return self


@router.get(
    f"{TOPIC}/ledger/{{ledgerId}}/entry/{{entryId}}", response_class=Response, responses=_MESSAGE
)
async def get_message(
    broker: AskedBroker,
    topic: OpenTopic,
    ledger_id: Annotated[int, Path(alias="ledgerId", ge=-LONG_MAX, le=LONG_MAX)],
    entry_id: Annotated[int, Path(alias="entryId", ge=-LONG_MAX, le=LONG_MAX)],
) -> Response:
    """The entry at a position; 404 while its transaction is open, and when it was aborted."""
    position = Position(ledger_id, entry_id)
    await broker.engine.look(lambda: lookup_by_index.check_visible(topic, position))
    return await _entry(broker, topic, position)


@router.get(f"{TOPIC}/examinemessage", response_class=Response, responses=_MESSAGE)
async def examine_message(
    broker: AskedBroker,
    topic: OpenTopic,
    initial_position: Annotated[str, Query(alias="initialPosition")] = "latest",
    count: Annotated[int, Query(alias="messagePosition", ge=-LONG_MAX, le=LONG_MAX)] = 1,
) -> Response:
    """The n-th entry from the `earliest` or the `latest` on; the farthest if there are fewer."""
    from_earliest = initial_position == "earliest"
    located = await lookup_by_index.examined(
        topic, from_earliest, count, TimeSlices(broker.clock, SHORT_WORK_S), broker.engine
    )
    return await _entry(broker, topic, located.position)


@router.get(
    f"{TOPIC}/subscription/{{subscription:path}}/position/{{messagePosition}}",
    response_class=Response,
    responses=_MESSAGE,
)
async def peek_message(
    broker: AskedBroker,
    topic: OpenTopic,
    subscription: str,
    count: Annotated[int, Path(alias="messagePosition", ge=1, le=LONG_MAX)],
    create: bool = True,
) -> Response:
    """The n-th entry, from 1, that the subscription has not acked.

    As upstream, peeking makes a subscription that is not there, at the first message. It is 404 with
    `create=false`, and where subscriptions are not made by using them.
    """
    backlog = (await _peeked(broker, topic, subscription, create)).cursor.backlog_ranges()
    located = await nth_in_backlog(
        topic.log, backlog, count, TimeSlices(broker.clock, SHORT_WORK_S), broker.engine
    )
    return await _entry(broker, topic, located.position)


async def _peeked(broker: Broker, topic: Topic, name: str, create: bool) -> Subscription:
    if name in topic.subscriptions or not (create and topic.policies.auto_subscriptions):
        return subscription_of(topic, name)
    check_label("subscription", name)
    try:
        return await broker.create_subscription(topic, name, topic.log.first_index)
    except AlreadyExists:  # another request makes it too, or has made it meanwhile
        return subscription_of(topic, name)


async def _entry(broker: Broker, topic: Topic, position: Position) -> Response:
    plan = await broker.engine.look(lambda: topic.log.plan_read(position, entries_max=1))
    (entry,) = await broker.engine.read(plan)
    shown = entry_view.view(
        entry,
        with_index=broker.settings.broker_entry_metadata,
        payload_size_max=broker.settings.max_message_size,
    )
    response = Response(shown.payload, media_type=BYTES)
    for name, value in shown.headers.items():
        response.raw_headers.append((HeaderName(name.encode()), value.encode()))
    return response
