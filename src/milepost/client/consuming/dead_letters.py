"""Dead letter and retry topics.

The topics are named after topic and subscription (`-DLQ`, `-RETRY`) unless the policy says otherwise. A
message carries along where it came from, in the properties that Java clients use. It is acked only when
its copy is stored; if that fails it stays, and comes again.

    letters = DeadLetters(policy, topic, "billing", create_producer)
    letters.bury(consumer, messages)
    await letters.send_later(consumer, message, delay_ms=5000)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from milepost.client.messages.key_reader import CryptoKeyReader
from milepost.client.policies import ConsumerDeadLetterPolicy
from milepost.errors import CryptoError, MilepostError
from milepost.positions import TopicName

if TYPE_CHECKING:
    from milepost.client.consuming.consumer import Consumer
    from milepost.client.messages.message import Message

log = logging.getLogger("milepost.client")

REAL_TOPIC: Final = "REAL_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIMES: Final = "RECONSUMETIMES"
DELAY_TIME: Final = "DELAY_TIME"

# The name of a key, and who has it.
Encryption = tuple[str, CryptoKeyReader]

# Makes a producer of raw bytes: of a topic, with a subscription to be made on it first, and encrypted.
CreateProducer = Callable[[str, str | None, Encryption | None], Awaitable[Any]]


def retry_topic(policy: ConsumerDeadLetterPolicy, topic: TopicName, subscription: str) -> str:
    return policy.retry_letter_topic or f"{topic.base}-{subscription}-RETRY"


class DeadLetters:
    def __init__(
        self,
        policy: ConsumerDeadLetterPolicy,
        topic: TopicName,
        subscription: str,
        create_producer: CreateProducer,
        keys: CryptoKeyReader | None = None,
    ) -> None:
        self._policy = policy
        self._keys = keys
        self._dead_topic = policy.dead_letter_topic or f"{topic.base}-{subscription}-DLQ"
        self._retry_topic = retry_topic(policy, topic, subscription)
        self._create_producer = create_producer
        self._producers: dict[tuple[str, str | None], asyncio.Task[Any]] = {}
        self._burials: set[asyncio.Task[None]] = set()

    def bury(self, consumer: Consumer, messages: tuple[Message, ...]) -> None:
        """Send messages to the dead letter topic, in the background."""
        burial = asyncio.create_task(self._bury(consumer, messages), name=self._dead_topic)
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)

    async def _bury(self, consumer: Consumer, messages: tuple[Message, ...]) -> None:
        for message in messages:
            try:
                await self._send_dead(message)
                await consumer.acknowledge(message)
            except MilepostError as error:
                log.warning("%s: %s stays for now: %s", self._dead_topic, message, error)
                if consumer.is_connected():
                    consumer.negative_acknowledge(message)

    async def _send_dead(self, message: Message) -> None:
        properties = _origin(message)
        subscription = self._policy.initial_subscription_name
        await self._send(self._dead_topic, subscription, message, properties)

    async def send_later(self, consumer: Consumer, message: Message, delay_ms: int) -> None:
        """Send to the retry topic, to come after a delay; to the dead letter topic if it came back
        too often already. Then ack it where it was."""
        times = int(message.properties().get(RECONSUME_TIMES, "0")) + 1
        if times > self._policy.max_redeliver_count:
            await self._send_dead(message)
        else:
            properties = _origin(message) | {
                RECONSUME_TIMES: str(times),
                DELAY_TIME: str(delay_ms),
            }
            after = timedelta(milliseconds=delay_ms)
            await self._send(self._retry_topic, None, message, properties, deliver_after=after)
        await consumer.acknowledge(message)

    async def _send(
        self,
        topic: str,
        subscription: str | None,
        message: Message,
        properties: dict[str, str],
        **fields: Any,
    ) -> None:
        producer = await self._producer(topic, subscription, self._encryption(message))
        await producer.send(
            message.data(),
            properties=properties,
            partition_key=message.partition_key() or None,
            event_timestamp=message.event_timestamp() or None,
            **fields,
        )

    def _encryption(self, message: Message) -> Encryption | None:
        """A copy of what was encrypted is encrypted too, with the same key, or not sent."""
        context = message.encryption_context()
        if context is None:
            return None
        if self._keys is None or context.is_decryption_failed():
            raise CryptoError(f"{message} was not decrypted, and cannot be encrypted for a copy")
        return context.keys()[0].key, self._keys

    async def _producer(
        self, topic: str, subscription: str | None, encryption: Encryption | None
    ) -> Any:
        which = topic, None if encryption is None else encryption[0]
        opening = self._producers.get(which)
        if opening is not None and opening.done() and opening.exception() is not None:
            opening = None
        if opening is None:

            async def create() -> Any:
                return await self._create_producer(topic, subscription, encryption)

            opening = self._producers[which] = asyncio.create_task(create(), name=topic)
        return await asyncio.shield(opening)

    async def close(self) -> None:
        """Give up what is on its way; it was not acked."""
        tasks = [*self._burials, *self._producers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _origin(message: Message) -> dict[str, str]:
    """The message's properties, and where it came from; what it says of that already stays."""
    properties = message.properties()
    properties.setdefault(REAL_TOPIC, message.topic_name())
    properties.setdefault(ORIGIN_MESSAGE_ID, str(message.message_id()))
    return properties
