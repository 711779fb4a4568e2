"""Parts: what a subscription consists of, as others ask it. Itself and its consumers, unless it is a group.

A broadcast group is several cursors under one name (broadcast.py): it, and its members, answer otherwise.
Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from milepost.broker.reset_history import ResetHistory
from milepost.cursor.cursor import Cursor

if TYPE_CHECKING:
    from milepost.broker.consumer import Consumer
    from milepost.broker.subscription import Subscription


class Parts:
    cursor: Cursor
    consumers: list[Consumer]
    properties: dict[str, str]
    resets: ResetHistory

    def doc(self) -> dict[str, Any]:
        """What the catalog keeps of it beside the cursor."""
        return {"properties": self.properties, "resets": self.resets.to_doc()}

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
