"""`TableView`: the newest value of every key of a topic.

    view = await client.create_table_view("prices")
    view.get("coffee")
    view.for_each_and_listen(lambda key, value: ...)

It reads the topic (what compaction left of it) from its beginning, partitions and all, and goes on. A
message without a key is none of it; one without a value removes its key. Values are decoded when they are
asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

from milepost.client.consuming.reader import Reader
from milepost.client.messages.message import Message
from milepost.errors import AlreadyClosed, MilepostError

log = logging.getLogger("milepost.client")

# Called with a key and its value; None: the key was removed.
TableListener = Callable[[str, Any], object]


class TableView:
    def __init__(self, reader: Reader, topic: str, subscription_name: str | None = None) -> None:
        self._reader = reader
        self._topic = topic
        self._subscription_name = subscription_name
        # The newest message of each key that has a value.
        self._newest: dict[str, Message] = {}
        self._listeners: list[TableListener] = []
        self._task: asyncio.Task[None] | None = None
        # Why it is no longer kept up to date; None while it is.
        self._error: MilepostError | None = None

    # -- life ----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read what is there; then go on by itself."""
        try:
            while await self._reader.has_message_available():
                self._take(await self._reader.read_next())
        except BaseException:
            await self._reader.close()
            raise
        self._task = asyncio.create_task(self._follow(), name=f"table view of {self._topic}")

    async def close(self) -> None:
        self._error = self._error or AlreadyClosed(f"{self} is closed")
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._reader.close()

    async def _follow(self) -> None:
        try:
            while True:
                self._take(await self._reader.read_next())
        except AlreadyClosed as error:
            self._error = self._error or error
        except MilepostError as error:
            self._error = self._error or error
            log.warning("%s is not kept up to date any more: %s", self, error)

    def _take(self, message: Message) -> None:
        key = message.partition_key()
        if not key:
            return
        is_removed = message.has_null_value() or not message.data()
        if is_removed:
            self._newest.pop(key, None)
        else:
            self._newest[key] = message
        for listener in self._listeners:
            self._tell(listener, key, None if is_removed else message)

    def _tell(self, listener: TableListener, key: str, message: Message | None) -> None:
        """Whatever a listener raises, the view goes on."""
        try:
            listener(key, None if message is None else message.value())
        except Exception:
            log.exception("%s: a listener failed at key %r", self, key)

    # -- what it says --------------------------------------------------------------------------------

    def get(self, key: str) -> Any:
        """The newest value of a key; None if it has none."""
        message = self._current().get(key)
        return None if message is None else message.value()

    def for_each(self, callback: TableListener) -> None:
        """Call with each key and its value."""
        for key, message in list(self._current().items()):
            callback(key, message.value())

    def for_each_and_listen(self, callback: TableListener) -> None:
        """Call with each key and its value, then with each that changes; None: it was removed."""
        self.for_each(callback)
        self._listeners.append(callback)

    def _current(self) -> dict[str, Message]:
        if self._error is not None:
            raise self._error
        return self._newest

    def __len__(self) -> int:
        return len(self._newest)

    def __contains__(self, key: object) -> bool:
        return key in self._newest

    def __iter__(self) -> Iterator[str]:
        """The keys that it has now."""
        return iter(list(self._newest))

    def __repr__(self) -> str:
        name = self._subscription_name
        told = "" if name is None else f", subscription={name}"
        return f"TableView(topic={self._topic}{told})"

    async def __aenter__(self) -> TableView:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
