"""Dead letters: messages that came too often go to a topic of their own, and are acked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.client.consumer import Consumer
    from milepost.client.message import Message


class DeadLetters:
    def bury(self, consumer: Consumer, messages: tuple[Message, ...]) -> None:
        raise NotImplementedError
