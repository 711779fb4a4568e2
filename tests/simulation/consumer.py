"""A client that receives: it acks by one, by part of a batch and cumulatively, with and without an answer,
gives back, seeks, and puts chunks together. Some follow a reset in place, the others are closed by it."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from stage.acksets import is_pending
from stage.stage import TOPIC
from stage.talk import ack_command, ask, error_of, subscribe_command, wire_id

from milepost.positions.ackset import AckSet
from milepost.positions.ids import Position
from milepost.testing.checker import History
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.chunks import ChunkAssembler, Whole
from milepost.wire.events import Delivery
from milepost.wire.metadata import chunk_info, is_batch, split_entry
from simulation.dials import BROADCAST, SUBSCRIPTIONS
from simulation.site import Site

_MOVES = (pb.CommandSeek, pb.CommandCloseConsumer)


class Held(NamedTuple):
    """A message, or a batch, that was received and is not acked."""

    positions: tuple[Position, ...]
    """Where it lies: of a chunked message every chunk."""
    ids: list[list[int]]
    """As the history names it; of a batch those that were shown."""
    indexes: list[int]
    size: int
    """How many messages its entry has."""


class Consumer:
    def __init__(
        self, site: Site, subscription: str, name: str, history: History, *, follows: bool = False
    ) -> None:
        self.name, self.history, self.subscription, self.follows = (
            name,
            history,
            subscription,
            follows,
        )
        self.group = {"topic": TOPIC, "sub": subscription, "by": name}
        self.has_keys = subscription == "keys"
        self.held: list[Held] = []
        self.old: list[Held] = []
        """What it held before it was told to begin again, and some of what it has acked: its acks of that
        come too late, or twice."""
        self._came: dict[Position, set[int]] = {}
        """Which messages came of each batch, since it was told to begin again."""
        self._acked_in_transactions: set[tuple[int, ...]] = set()
        self.acks_old_cumulatively = self.has_transactions = False
        self.is_closed = False
        self.believes_active = self.is_noted_active = False
        """What it was told last of a Failover subscription, and what the history says."""
        self._is_behind = False
        """What it hears next may have been sent long ago."""
        self.epoch = 0
        self.refused: set[int] = set()
        """Operations of the history that were answered with an error."""
        self._asked: dict[int, int] = {}
        self._seeks: dict[int, int] = {}
        self._chunks = ChunkAssembler()
        said = {"milepost.reset": "in-place"} if follows else {}
        if subscription == BROADCAST:
            member = name.partition(" ")[0]
            self.group["sub"] = f"{BROADCAST} {member}"
            said |= {"milepost.mode": "broadcast", "milepost.member": member}
        fields: dict[str, Any] = {"consumer_epoch": 0} if follows else {}
        history.note("join", **self.group, mode="connection")
        self.client = site.client(address=f"{name}:1")
        self._permits = 0
        self._inbox: list[Any] = []
        self._joining: int | None = ask(
            self.client,
            subscribe_command(
                subscription,
                SUBSCRIPTIONS[subscription],
                consumer_name=name,
                initialPosition=pb.CommandSubscribe.Earliest,
                metadata=[pb.KeyValue(key=key, value=value) for key, value in said.items()],
                **fields,
            ),
        )

    def flow(self, permits: int) -> None:
        """Ask for messages, once the broker has let it in."""
        if self._joining is not None:
            self._permits += permits
            return
        self.client.say(pb.CommandFlow(consumer_id=0, messagePermits=permits))

    # -- hears -------------------------------------------------------------------------------------

    def hear_moves(self) -> None:
        """Take what came up to the last word that the cursor was moved: a consumer that is told so holds
        nothing any more, and another one may get it. So it is with a connection that the broker has ended,
        whose client shows nothing of what it had not taken."""
        self._inbox += self.client.take()
        if self.client.is_lost:
            self._inbox = [one for one in self._inbox if not isinstance(one, Delivery)]
            self.hear()
            return
        moves = [at for at, one in enumerate(self._inbox) if isinstance(one, _MOVES)]
        if moves:
            came, self._inbox = self._inbox[: moves[-1] + 1], self._inbox[moves[-1] + 1 :]
            self._take(came)

    def hear(self) -> None:
        came, self._inbox = self._inbox + self.client.take(), []
        self._take(came)
        self._is_behind = not self.client.reads

    def _take(self, came: list[Any]) -> None:
        moves = [at for at, one in enumerate(came) if isinstance(one, pb.CommandSeek)]
        for at, heard in enumerate(came):
            if isinstance(heard, Delivery):
                # What lies unread between two words that the cursor was moved is dropped by the second one.
                if not moves or not moves[0] < at < moves[-1]:
                    self._delivered(heard)
            elif isinstance(heard, pb.CommandAckResponse):
                self._settle(self._asked.pop(heard.request_id), heard)
            elif isinstance(heard, pb.CommandSeek):
                self._obey(heard.consumer_epoch)
            elif isinstance(heard, pb.CommandActiveConsumerChange):
                self.believes_active = heard.is_active
            elif isinstance(heard, pb.CommandCloseConsumer):
                self.is_closed = True
            elif getattr(heard, "request_id", None) in self._seeks:
                self._settle(self._seeks.pop(heard.request_id), heard)
            elif isinstance(heard, pb.CommandError):
                self.is_closed = True
            elif getattr(heard, "request_id", None) == self._joining is not None:
                self._joining = None
                self.flow(self._permits)
        if self.client.is_lost:
            self.is_closed = True

    def _settle(self, n: int, answer: Any) -> None:
        if error_of(answer):
            self.refused.add(n)
            self.history.unknown(n)
        else:
            self.history.ok(n)

    def _obey(self, epoch: int) -> None:
        """The cursor was moved: what is older is dropped, and the broker told."""
        if epoch > self.epoch:
            self.epoch = epoch
            self._begin_again()
            if not self._is_behind:
                self.history.note("leave", **self.group)
                self.history.note("join", **self.group, mode="connection")
        ask(self.client, pb.CommandSeek(consumer_id=0, request_id=0, consumer_epoch=epoch))
        self.flow(20)

    def _begin_again(self) -> None:
        self.old += self.held
        self.held = []
        self._came.clear()
        self._chunks.clear()

    def _delivered(self, delivery: Delivery) -> None:
        if self.follows and delivery.consumer_epoch < self.epoch:
            return
        parts = split_entry(delivery.entry)
        assert parts.broker is not None
        assert parts.broker.index is not None
        position = Position(delivery.ledger_id, delivery.entry_id)
        last_index, size = parts.broker.index, 1
        has_key = self.has_keys and parts.metadata.partition_key
        key = {"key": parts.metadata.partition_key} if has_key else {}
        info = chunk_info(parts.metadata)
        if info is not None:
            whole = self._chunks.add(info, position, parts.payload, now_ms=0)
            if isinstance(whole, Whole):
                self._received(whole, position, last_index, key)
            return
        names = [parts.payload.decode()]
        if is_batch(parts.metadata):
            size = parts.metadata.num_messages_in_batch
            names = [one.payload.decode() for one in split_batch(parts.payload, size)]
        shown = AckSet.from_message_words(delivery.ack_set, size)
        held = Held((position,), [], [], size)
        for number, name in enumerate(names):
            if not is_pending(shown, number):
                continue
            held.ids.append([*position, number if size > 1 else -1])
            held.indexes.append(last_index - size + 1 + number)
            self.history.note(
                "receive",
                **self.group,
                message=name,
                id=held.ids[-1],
                index=held.indexes[-1],
                **key,
            )
        self.held.append(held)
        self._came.setdefault(position, set()).update(held.indexes)

    def _received(self, whole: Whole, position: Position, index: int, key: dict[str, str]) -> None:
        id_ = [*position, -1]
        first = [*whole.positions[0], -1]
        self.held.append(Held(whole.positions, [id_], [index], 1))
        self.history.note(
            "receive",
            **self.group,
            message=whole.payload.decode(),
            id=id_,
            index=index,
            first=first,
            **key,
        )

    def note_active(self, *, over: bool) -> None:
        """Write down whether it believes to be the active one, if that has changed. What a client that reads
        nothing believes is of no account: it may have been told otherwise."""
        believes = self.believes_active and self.client.reads
        if believes != self.is_noted_active and over != believes:
            self.is_noted_active = believes
            self.history.note("active", **self.group, **({"over": True} if over else {}))

    # -- says --------------------------------------------------------------------------------------

    def ack(self, random: Random, txn: tuple[str, Any] | None = None) -> int | None:
        """Ack something that it holds; the operation of the history, if an answer is to come."""
        if self._joining is not None:
            return None
        source = self.held
        if self.old and random.random() < (0.3 if source else 0.6):
            source = self.old  # an ack that comes too late, or twice
        if not source or self.is_closed:
            return None
        held = source.pop(random.randrange(len(source)))
        if source is self.held and txn is None and random.random() < 0.2:
            self.old.append(held)
        acked = [wire_id(*position) for position in held.positions]
        ids = held.ids
        cumulative = (
            txn is None
            and self.subscription in ("one", "spare")
            and (source is self.held or self.acks_old_cumulatively)
            and random.random() < 0.3
        )
        if held.size > 1 and random.random() < 0.6:  # a part of the batch
            at = random.randrange(len(ids))
            pending = AckSet.full(held.size)
            for number in range(ids[at][2] + 1) if cumulative else (ids[at][2],):
                pending = pending.without(number)
            ids = [ids[at]]
            acked[0].ack_set.extend(pending.to_ack_words())
        elif held.size > 1 and (source is self.old or self._got_more_of(held)):
            # Late as it is, it may not speak for messages of the batch that come only now, behind a seek, nor
            # for those of another delivery: of the whole entry an ack would, and no broker could tell.
            # A set of all is an ack of the batch, which leaves what this client has acked in a transaction.
            if len(ids) == held.size:
                ids = [one for one in ids if tuple(one) not in self._acked_in_transactions]
            if not ids:
                return None
            pending = AckSet.full(held.size)
            for _, _, number in ids:
                pending = pending.without(number)
            acked[0].ack_set.extend(pending.to_ack_words())
        if cumulative:
            acked, ids = acked[-1:], ids[-1:]
        fields: dict[str, Any] = {**self.group, "ids": ids, "cumulative": cumulative}
        command = ack_command(*acked, cumulative=cumulative)
        if txn is not None:
            name, number = txn
            command.txnid_least_bits, command.txnid_most_bits = number.least, number.most
            self._acked_in_transactions.update(map(tuple, ids))
            fields["txn"] = name
        # What the broker does not take yet may be lost with the connection: then it was not given.
        if txn is not None or random.random() < 0.6 or not self.client.is_read:
            n = self.history.invoke("ack", **fields)
            self._asked[ask(self.client, command)] = n
            return n
        self.history.note("ack", **fields)
        self.client.say(command)
        return None

    def _got_more_of(self, held: Held) -> bool:
        """Had it another delivery of the same batch, of which an abort may have brought a part back?"""
        return self.has_transactions and len(self._came[held.positions[0]]) > len(held.ids)

    def give_back(self, random: Random) -> None:
        if self.is_closed or not self.held or self.subscription in ("one", "spare"):
            return
        held = self.held.pop(random.randrange(len(self.held)))
        self.history.note("release", **self.group, ids=held.ids)
        self.client.say(
            pb.CommandRedeliverUnacknowledgedMessages(
                consumer_id=0,
                message_ids=[wire_id(*position) for position in held.positions],
                consumer_epoch=self.epoch if self.follows else None,
            )
        )

    def seek(self, random: Random, targets: dict[int, list[int]]) -> None:
        """Go to one of the messages whose ids it knows, exactly."""
        if self.is_closed or self._seeks or not targets:
            return
        index = random.choice(sorted(targets))
        ledger_id, entry_id, batch_index = targets[index]
        target = wire_id(ledger_id, entry_id)
        if batch_index >= 0:
            target.batch_index = batch_index
        command = pb.CommandSeek(consumer_id=0, request_id=0, message_id=target)
        if self.follows:
            self.epoch += 1
            command.consumer_epoch = self.epoch
            self._begin_again()
            self.history.note("release", **self.group)
        n = self.history.invoke("seek", **self.group, index=index)
        self._seeks[ask(self.client, command)] = n
        if self.follows:
            self.flow(20)

    def pending(self) -> list[int]:
        """Operations of the history that have no answer yet."""
        return [*self._asked.values(), *self._seeks.values()]

    def _tell_unread(self) -> None:
        """Write down what the broker has sent since it last moved the cursor, and the client has not read.
        An ack does not say of which delivery it is: behind this one, an ack of an older one counts, and the
        broker alone knows that there was this one. No key is told, for nobody saw in which order it came."""
        unread = self._inbox + self.client.take_unread()
        moves = [
            at
            for at, one in enumerate(unread)
            if isinstance(one, _MOVES) or getattr(one, "request_id", None) in self._seeks
        ]
        held, self.held, self.has_keys = self.held, [], False
        for one in unread[moves[-1] + 1 if moves else 0 :]:
            if isinstance(one, Delivery):
                self._delivered(one)
        self.held = held

    def leave(self) -> None:
        """The connection is gone; what has no answer will have none."""
        for n in self.pending():
            self.refused.add(n)
            self.history.unknown(n)
        self._tell_unread()
        self._asked.clear()
        self._seeks.clear()
        self.is_closed = True
        self.history.note("leave", **self.group)
        self.client.hang_up()
