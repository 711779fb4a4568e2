"""A client of either kind, as far as a reset can tell them apart, over a connection without a socket.

An *official* one knows no resets: it is closed, forgets what it holds, and subscribes again. A *milepost*
one follows in place: it obeys a SEEK of the broker's, drops what is older, gives the permits back and says
so. Both keep the messages they were shown, and may ack any they ever were.
"""

from __future__ import annotations

from typing import Any

from stage.acksets import is_pending
from stage.stage import Stage
from stage.talk import ask, error_of, subscribe_command

from milepost.positions.ackset import AckSet
from milepost.positions.ids import Position
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.metadata import message_count, split_entry

OFFICIAL, MILEPOST = "official", "milepost"
KINDS = (OFFICIAL, MILEPOST)

_FOLLOWS = pb.KeyValue(key="milepost.reset", value="in-place")


class Player:
    def __init__(
        self,
        stage: Stage,
        name: str,
        kind: str = OFFICIAL,
        sub_type: Any = pb.CommandSubscribe.Shared,
        *,
        subscription: str = "s",
        member: str = "",
        permits: int = 10,
        topic: str = "persistent://public/default/t",
    ) -> None:
        self.stage, self.name, self.kind = stage, name, kind
        self._sub_type, self._subscription, self._topic = sub_type, subscription, topic
        self._member, self.permits = member, permits
        self.epoch = 0
        """Its own, as a milepost client counts."""
        self.cursor_epoch: int | None = None
        """What it says it knows of the cursor's; None: nothing, as a client that is older."""
        self.life = 0
        """How often it was closed, or told to start again."""
        self.inbox: list[Delivery] = []
        """What it was shown in this life and has not acked."""
        self.ever: list[Delivery] = []
        self.accepted: list[tuple[int, Delivery]] = []
        """(life, delivery) of what was heard since the last `listen`."""
        self.answered: list[int] = []
        """Request ids of acks that were answered since the last `listen`."""
        self.seeks_heard = 0
        self.is_joined = False
        self._joining: int | None = None
        self.client = stage.client(address=f"{name}:1")

    def __repr__(self) -> str:
        return f"<{self.kind} player {self.name}>"

    # -- says --------------------------------------------------------------------------------------

    def join(self) -> None:
        """Ask to be let in, unless it has; SUCCESS may take a while."""
        if self.is_joined or self._joining is not None or self.client.is_lost:
            return
        metadata = [_FOLLOWS] if self.kind == MILEPOST else []
        if self._member:
            said = {"milepost.mode": "broadcast", "milepost.member": self._member}
            metadata += [pb.KeyValue(key=key, value=value) for key, value in said.items()]
        fields: dict[str, Any] = {"consumer_name": self.name, "topic": self._topic}
        if self.kind == MILEPOST:
            fields["consumer_epoch"] = self.epoch
            fields["cursor_epoch"] = self.cursor_epoch
        self._joining = ask(
            self.client,
            subscribe_command(
                self._subscription,
                self._sub_type,
                metadata=metadata,
                initialPosition=pb.CommandSubscribe.Earliest,
                **fields,
            ),
        )

    def flow(self, permits: int) -> None:
        if permits > 0:
            self.client.say(pb.CommandFlow(consumer_id=0, messagePermits=permits))

    def ack(self, *deliveries: Delivery, cumulative: bool = False) -> int:
        """The request's id; of whole entries."""
        self.inbox = [one for one in self.inbox if one not in deliveries]
        command = pb.CommandAck(
            consumer_id=0,
            ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
            message_id=[
                pb.MessageIdData(ledgerId=one.ledger_id, entryId=one.entry_id) for one in deliveries
            ],
        )
        return ask(self.client, command)

    def leave(self) -> None:
        self.client.hang_up()
        self.is_joined, self._joining = False, None

    # -- hears -------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Take what came, as a client of its kind does."""
        for heard in self.client.take():
            if isinstance(heard, Delivery):
                self._delivered(heard)
            elif isinstance(heard, pb.CommandCloseConsumer):
                self._forget()
                self.is_joined = False
            elif isinstance(heard, pb.CommandSeek):
                self._obey(heard.consumer_epoch)
            elif isinstance(heard, pb.CommandAckResponse):
                assert not error_of(heard), heard
                self.answered.append(heard.request_id)
            elif getattr(heard, "request_id", None) == self._joining is not None:
                self._joining = None
                if not error_of(heard):
                    self._forget()
                    self.is_joined = True
                    self.flow(self.permits)

    def _delivered(self, delivery: Delivery) -> None:
        assert self.is_joined or self._joining is not None, f"{delivery} after the end of {self}"
        if self.kind == MILEPOST:
            assert delivery.consumer_epoch <= self.epoch, "a higher epoch without a word"
            if delivery.consumer_epoch < self.epoch:
                self.flow(len(indexes_shown(delivery)))
                return
        self.inbox.append(delivery)
        self.ever.append(delivery)
        self.accepted.append((self.life, delivery))

    def _obey(self, epoch: int) -> None:
        assert self.kind == MILEPOST, f"{self} was sent a SEEK"
        assert epoch > self.epoch, f"epoch {epoch} behind {self.epoch}"
        self.seeks_heard += 1
        self.epoch = epoch
        self.flow(sum(len(indexes_shown(one)) for one in self.inbox))
        self._forget()
        ask(self.client, pb.CommandSeek(consumer_id=0, request_id=0, consumer_epoch=epoch))

    def _forget(self) -> None:
        self.life += 1
        self.inbox.clear()

    # -- shorthand for tests that are no races -----------------------------------------------------

    def settle(self) -> list[str]:
        """Join if need be, let everything happen, and give the payloads that are in the inbox."""
        for _ in range(3):
            self.join()
            self.stage.turn()
            self.listen()
        self.stage.turn()
        self.listen()
        return [split_entry(one.entry).payload.decode() for one in self.inbox]


def position_of(delivery: Delivery) -> Position:
    return Position(delivery.ledger_id, delivery.entry_id)


def indexes_shown(delivery: Delivery) -> list[int]:
    """Which messages of its entry a client is shown, by their place in it."""
    count = message_count(split_entry(delivery.entry).metadata)
    pending = AckSet.from_message_words(delivery.ack_set, count)
    return [number for number in range(count) if is_pending(pending, number)]
