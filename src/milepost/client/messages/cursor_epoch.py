"""The consumer epoch: how often the position was moved, as far as the client knows.

A Milepost broker says it in the answers to SUBSCRIBE and SEEK, and when it tells of an operator's reset. The
client says it back whenever it subscribes again. A broker that finds it too low tells of the reset behind its
SUCCESS, as if the client had been there: so an ack from before the reset is void, however often its
connection broke on the way, and is never taken for one of what was delivered again since.

    >>> epoch = CursorEpoch()
    >>> epoch.subscribed(pb.CommandSuccess(request_id=1, cursor_epoch=4)); epoch.known
    4
    >>> epoch.subscribed(pb.CommandSuccess(request_id=2, cursor_epoch=5)); epoch.known
    4
    >>> epoch.moved(pb.CommandSeek(consumer_id=0, request_id=3, cursor_epoch=5)); epoch.known
    5

Other brokers say nothing, and then nothing is known.
"""

from __future__ import annotations

from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb


class CursorEpoch:
    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: int | None = None

    def subscribed(self, answer: pb.CommandSuccess) -> None:
        """If the cursor was moved more often than we know of, we hear of that next, and until then we do
        not know: the connection may break before. If less often, it is another cursor."""
        if answer.HasField("cursor_epoch"):
            epoch = signed64(answer.cursor_epoch)
            if self.known is None or epoch < self.known:
                self.known = epoch

    def moved(self, told: pb.CommandSuccess | pb.CommandSeek) -> None:
        """We sought and were answered, or were told of a reset."""
        if self.known is not None and told.HasField("cursor_epoch"):
            self.known = max(self.known, signed64(told.cursor_epoch))
