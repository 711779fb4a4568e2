"""The cursors of a subscription, as others ask for them: one, or one a member.

A broadcast group is several cursors under one name (broadcast.py): it, and its members, answer otherwise.
Changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.broker.subscription.reset_history import ResetHistory
from milepost.cursor.cursor import Cursor

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.topic.topic import Topic


# Keys of the document.
REPLICATED, IDLE_MS = "replicated", "idle_ms"


class NewSubscription(NamedTuple):
    """One that is to be made."""

    topic: Topic
    name: str
    cursor: Cursor
    doc: dict[str, Any]


class Parts:
    cursor: Cursor
    consumers: list[Consumer]
    properties: dict[str, str]
    resets: ResetHistory
    is_replicated: bool = False
    """Whether an operator asked that other clusters know of it; only stored."""
    idle_ms: int | None = None
    """For how long no consumer has used it, as far as was seen and stored; None while one does."""

    def doc(self) -> dict[str, Any]:
        """What the catalog keeps of it beside the cursor."""
        doc: dict[str, Any] = {"properties": self.properties, "resets": self.resets.to_doc()}
        if self.is_replicated:
            doc[REPLICATED] = True
        if self.idle_ms is not None:
            doc[IDLE_MS] = self.idle_ms
        return doc

    def recall(self, doc: Mapping[str, Any]) -> None:
        """Take from a document what was not given when it was made."""
        self.is_replicated = bool(doc.get(REPLICATED, False))
        self.idle_ms = doc.get(IDLE_MS)

    def parts(self: Subscription) -> Sequence[Subscription]:  # type: ignore[misc]
        """Itself, and the members of a group: all that have a cursor."""
        return (self,)

    @property
    def owner(self: Subscription) -> Subscription:  # type: ignore[misc]
        """Whose resets it obeys: a member its group's."""
        return self

    @property
    def position(self) -> int:
        """The first index that is not acked, of a group by any member; the end if all are."""
        return self.cursor.mark_delete_index + 1

    def cursors(self) -> Sequence[Cursor]:
        """What a reset changes for consumers."""
        return (self.cursor,)

    def label_of(self, consumer: Consumer) -> str:
        """What the history of resets calls a consumer."""
        return consumer.name

    def waiting_labels(self) -> list[str]:
        """Who has to obey a reset that comes now."""
        return [consumer.name for consumer in self.consumers]
