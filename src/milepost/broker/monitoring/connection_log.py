"""Logs each connection, producer and consumer that comes or goes.

Owns the words of these lines only. They are for the operator who asks in the morning since when a group
had no consumer: each names its client, its topic and its subscription as fields, and what had been done.

    INFO broker.presence: consumer left client=10.0.0.7:41822 topic=persistent://public/default/orders
         subscription=billing name=till-1 sent=1200 acked=1100 held=100
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.topic.producer import Producer

logger = logging.getLogger(__name__)


def connected(session: Session) -> None:
    known = session.credentials.identity
    role = {} if known is None else {"role": known}
    _say("client connected", session.address, software=session.client_version, **role)


def disconnected(session: Session, *, by_broker: bool) -> None:
    _say(
        "client disconnected",
        session.address,
        by="broker" if by_broker else "client",
        producers=len(session.producers),
        consumers=len(session.consumers),
    )


def produces(producer: Producer) -> None:
    _say("producer came", producer.peer.address, topic=producer.topic.name, producer=producer.name)


def produced(producer: Producer) -> None:
    _say(
        "producer left",
        producer.peer.address,
        topic=producer.topic.name,
        producer=producer.name,
        messages=producer.messages_in,
    )


def consumes(consumer: Consumer) -> None:
    subscription = consumer.subscription
    _say(
        "consumer came",
        consumer.peer.address,
        topic=subscription.topic.name,
        subscription=subscription.name,
        consumer=consumer.name,
        backlog=subscription.cursor.backlog,
    )


def consumed(consumer: Consumer) -> None:
    subscription = consumer.subscription
    _say(
        "consumer left",
        consumer.peer.address,
        topic=subscription.topic.name,
        subscription=subscription.name,
        consumer=consumer.name,
        sent=consumer.messages_out,
        acked=consumer.messages_acked,
        held=consumer.unacked,
    )


def _say(what: str, client: str, **fields: object) -> None:
    if logger.isEnabledFor(logging.INFO):
        texts = {name: one if isinstance(one, int) else str(one) for name, one in fields.items()}
        logger.info(what, extra={"client": client, **texts})
