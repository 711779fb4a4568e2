"""A dialogue played on a stage: every command by a client of its own, over the real sessions.

    publish N [by p] [seq=S]            N messages; one if N is left out
    publish batch=N | chunks=N | chunk=K/N | marker | spoiled
    produce p [exclusive|wait|fence]    a producer says how it wants the topic
    subscribe s TYPE [as c] [epoch=E] [permits=N] [priority=N] [at=earliest] [reader]
    flow c N · leave c · unsubscribe c · hang-up c
    ack c ID… [cumulative]              1:0 is an entry, 1:0/2,3 are messages of a batch
    redeliver c [ID…] [epoch=E]
    seek c ID|earliest|latest [epoch=E]
    last c                              GET_LAST_MESSAGE_ID
    hold-reads · release-reads · hold-journal · release-journal · checkpoint
    fail-sync · disk-full · disk-heals
    crash · tick N · settings key=value (first of all)

A consumer is called like its subscription unless it has a name. What is said, by client:

    receipt p 0@1:0 1@-1:-1 2!ChecksumError
    deliver c 1:0 1:1[0,2] 1:2*1 epoch=1    shown messages of a batch; how often it came before
    dropped s 1:3                           read under an older epoch of the cursor, for nobody
    closed c · active c · standby c · lost c · answered c ack · refused c seek NotAllowedError
    s ready=2 inflight=2 acked=1 epoch=1    for every subscription whose numbers changed
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterable
from typing import Any

from stage import frames
from stage.acksets import is_pending
from stage.stage import TOPIC, Stage

from milepost.broker.subscription.subscription import Subscription
from milepost.positions import signed64, unsigned64
from milepost.positions.ackset import AckSet
from milepost.positions.ids import EARLIEST, LATEST, Position
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt
from milepost.wire.metadata import message_count, split_entry
from scenarios.dialogue import Command

TYPES = {
    "exclusive": pb.CommandSubscribe.Exclusive,
    "shared": pb.CommandSubscribe.Shared,
    "failover": pb.CommandSubscribe.Failover,
    "key_shared": pb.CommandSubscribe.Key_Shared,
}
MODES = {
    "": pb.Shared,
    "exclusive": pb.Exclusive,
    "wait": pb.WaitForExclusive,
    "fence": pb.ExclusiveWithFencing,
}
SWITCHES = {"true": True, "false": False}


class Play:
    def __init__(self) -> None:
        self.stage = Stage(tail_size=0)
        self._begin()

    def _begin(self) -> None:
        self.clients: dict[str, Loopback] = {}
        self.requests: dict[int, str] = {}
        """Request → what was asked."""
        self.sequence_ids: dict[str, int] = getattr(self, "sequence_ids", {})
        self.dropped: list[str] = []
        self.watched: dict[Subscription, tuple[int, ...]] = {}
        self._request_ids = itertools.count(1)

    def close(self) -> None:
        self.stage.close()

    # -- saying ------------------------------------------------------------------------------------

    def say(self, command: Command) -> None:
        getattr(self, command.verb.replace("-", "_"))(*command.words, **command.options)
        self.stage.turn()
        self._watch()

    def settings(self, **options: str) -> None:
        """Of the broker: to be said first."""
        values = {key: SWITCHES.get(value) for key, value in options.items()}
        numbers = {key: int(value) for key, value in options.items() if value not in SWITCHES}
        self.stage.close()
        self.stage = Stage(**{"tail_size": 0, **values, **numbers})

    def produce(self, name: str, mode: str = "", **options: str) -> None:
        client = self._client(name)
        self._ask(
            client,
            "produce",
            pb.CommandProducer(
                topic=TOPIC,
                producer_id=0,
                producer_name=name,
                producer_access_mode=MODES[mode],
                request_id=0,
                **{key: int(value) for key, value in options.items()},
            ),
        )

    def publish(self, *words: str, **options: str) -> None:
        name = words[words.index("by") + 1] if "by" in words else "p"
        if name not in self.clients or self.clients[name].is_lost:
            self.produce(name)
            self.stage.turn()
            self.clients[name].take_all(pb.CommandProducerSuccess)
        client = self.clients[name]
        count = int(words[0]) if words and words[0].isdigit() else 1
        for _ in range(count):
            number = int(options.get("seq", self.sequence_ids.get(name, 0)))
            self.sequence_ids[name] = number + 1
            client.say(*self._frames(number, name, words, options))

    def _frames(
        self, number: int, name: str, words: Iterable[str], options: dict[str, str]
    ) -> list[bytes]:
        fields: dict[str, Any] = {"producer": name}
        if "key" in options:
            fields["partition_key"] = options["key"]
        if "spoiled" in words:
            return [frames.spoiled(number)]
        if "marker" in words:
            return [frames.marker(number, **fields)]
        if "batch" in options:
            return [frames.batch(number, int(options["batch"]), **fields)]
        if "chunks" in options:
            count = int(options["chunks"])
            return [frames.chunk(number, chunk_id, count, **fields) for chunk_id in range(count)]
        if "chunk" in options:
            chunk_id, count = map(int, options["chunk"].split("/"))
            return [frames.chunk(number, chunk_id, count, **fields)]
        return [frames.message(number, **fields)]

    def subscribe(self, subscription: str, sub_type: str, *words: str, **options: str) -> None:
        name = words[words.index("as") + 1] if "as" in words else subscription
        command = pb.CommandSubscribe(
            topic=TOPIC,
            subscription=subscription,
            subType=TYPES[sub_type],
            consumer_id=0,
            request_id=0,
            consumer_name=name,
            durable="reader" not in words,
            priority_level=int(options.get("priority", 0)),
            initialPosition=pb.CommandSubscribe.Earliest
            if options.get("at") == "earliest"
            else pb.CommandSubscribe.Latest,
        )
        if "epoch" in options:
            command.consumer_epoch = int(options["epoch"])
        client = self._client(name)
        self._ask(client, "subscribe", command)
        if "permits" in options:
            self.stage.turn()
            self.flow(name, options["permits"])

    def flow(self, name: str, permits: str) -> None:
        self.clients[name].say(pb.CommandFlow(consumer_id=0, messagePermits=int(permits)))

    def leave(self, name: str) -> None:
        if 0 in self.clients[name].session.producers:
            command: Any = pb.CommandCloseProducer(producer_id=0, request_id=0)
        else:
            command = pb.CommandCloseConsumer(consumer_id=0, request_id=0)
        self._ask(self.clients[name], "leave", command)

    def unsubscribe(self, name: str) -> None:
        command = pb.CommandUnsubscribe(consumer_id=0, request_id=0)
        self._ask(self.clients[name], "unsubscribe", command)

    def hang_up(self, name: str) -> None:
        self.clients[name].hang_up()

    def ack(self, name: str, *words: str) -> None:
        ids = [self._id(word, for_ack=True) for word in words if word != "cumulative"]
        command = pb.CommandAck(
            consumer_id=0, ack_type=int("cumulative" in words), message_id=ids, request_id=0
        )
        self._ask(self.clients[name], "ack", command)

    def redeliver(self, name: str, *words: str, **options: str) -> None:
        command = pb.CommandRedeliverUnacknowledgedMessages(
            consumer_id=0, message_ids=map(self._id, words)
        )
        if "epoch" in options:
            command.consumer_epoch = int(options["epoch"])
        self.clients[name].say(command)

    def seek(self, name: str, target: str, **options: str) -> None:
        command = pb.CommandSeek(consumer_id=0, request_id=0, message_id=self._id(target))
        if "epoch" in options:
            command.consumer_epoch = int(options["epoch"])
        self._ask(self.clients[name], "seek", command)

    def last(self, name: str) -> None:
        command = pb.CommandGetLastMessageId(consumer_id=0, request_id=0)
        self._ask(self.clients[name], "last", command)

    def hold_reads(self) -> None:
        self.stage.engine.holds_reads = True

    def release_reads(self) -> None:
        self.stage.engine.holds_reads = False

    def hold_journal(self) -> None:
        self.stage.engine.holds_journal = True

    def release_journal(self) -> None:
        self.stage.engine.holds_journal = False

    def checkpoint(self) -> None:
        self.stage.checkpoint()

    def fail_sync(self) -> None:
        self.stage.files.faults.fail("sync", under="journal")

    def disk_full(self) -> None:
        self.stage.files.faults.fail("append", forever=True, error=errno.ENOSPC)

    def disk_heals(self) -> None:
        self.stage.files.faults.heal()

    def crash(self) -> None:
        """The process is gone, and with it every connection and all that was not on disk."""
        self.stage = self.stage.restarted()
        self._begin()
        self.stage.topic()

    def tick(self, seconds: str) -> None:
        self.stage.tick(float(seconds))

    # -- hearing -----------------------------------------------------------------------------------

    def hear(self) -> list[str]:
        self.stage.turn()
        said = self.dropped
        self.dropped = []
        for name, client in list(self.clients.items()):
            said += self._heard(name, client)
            if client.is_lost:
                said.append(f"lost {name}")
                del self.clients[name]
        return said + self._numbers()

    def _heard(self, name: str, client: Loopback) -> list[str]:
        lines: list[str] = []
        for event in client.take():
            if isinstance(event, Receipt):
                token = f"{event.sequence_id}@{event.ledger_id}:{event.entry_id}"
                _join(lines, f"receipt {name}", token)
            elif isinstance(event, pb.CommandSendError):
                token = f"{signed64(event.sequence_id)}!{pb.ServerError.Name(event.error)}"
                _join(lines, f"receipt {name}", token)
            elif isinstance(event, Delivery):
                epoch = f"epoch={event.consumer_epoch}" if event.consumer_epoch >= 0 else ""
                _join(lines, f"deliver {name}", _shown(event), epoch)
            else:
                lines += self._answer(name, event)
        return lines

    def _answer(self, name: str, event: Any) -> list[str]:
        if isinstance(event, pb.CommandCloseConsumer | pb.CommandCloseProducer):
            return [f"closed {name}"]
        if isinstance(event, pb.CommandActiveConsumerChange):
            return [f"{'active' if event.is_active else 'standby'} {name}"]
        asked = self.requests.get(event.request_id, "?")
        if hasattr(event, "error") and event.HasField("error"):
            return [f"refused {name} {asked} {pb.ServerError.Name(event.error)}"]
        if isinstance(event, pb.CommandGetLastMessageIdResponse):
            last, mark = event.last_message_id, event.consumer_mark_delete_position
            batch = f"/{last.batch_index}" if last.batch_index >= 0 else ""
            done = (
                f" mark-delete {_text(mark)}"
                if event.HasField("consumer_mark_delete_position")
                else ""
            )
            return [f"last {name} {_text(last)}{batch}{done}"]
        if isinstance(event, pb.CommandProducerSuccess) and not event.producer_ready:
            return [f"waits {name}"]
        if isinstance(event, pb.CommandProducerSuccess) and event.HasField("topic_epoch"):
            return [f"answered {name} {asked} epoch={event.topic_epoch}"]
        return [] if asked == "subscribe" else [f"answered {name} {asked}"]

    def _numbers(self) -> list[str]:
        lines = []
        for subscription, before in self.watched.items():
            if subscription.topic.subscriptions.get(subscription.name) is not subscription:
                continue  # it is gone
            counts = subscription.cursor.counts()
            now = (*counts, subscription.cursor.epoch)
            if now != before:
                ready, inflight, _, acked = counts
                epoch = f" epoch={subscription.cursor.epoch}" if subscription.cursor.epoch else ""
                lines.append(
                    f"{subscription.name} ready={ready} inflight={inflight} acked={acked}{epoch}"
                )
                self.watched[subscription] = now
        return lines

    # -- inside ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """See what new subscriptions drop."""
        for topic in self.stage.broker.topics.values():
            for subscription in topic.subscriptions.values():
                if subscription not in self.watched:
                    self.watched[subscription] = ()
                    self._overhear(subscription)

    def _overhear(self, subscription: Subscription) -> None:
        offer = subscription.offer

        def overheard(entries: Any, epoch: int, **how: bool) -> None:
            if epoch != subscription.cursor.epoch:
                read = " ".join(str(entry.position) for entry in entries)
                self.dropped.append(f"dropped {subscription.name} {read}")
            offer(entries, epoch, **how)

        subscription.offer = overheard  # type: ignore[method-assign]

    def _client(self, name: str) -> Loopback:
        if name not in self.clients or self.clients[name].is_lost:
            self.clients[name] = self.stage.client(address=name)
        return self.clients[name]

    def _ask(self, client: Loopback, what: str, command: Any) -> None:
        command.request_id = next(self._request_ids)
        self.requests[command.request_id] = what
        client.say(command)

    def _id(self, text: str, *, for_ack: bool = False) -> pb.MessageIdData:
        ends = {"earliest": EARLIEST.position, "latest": LATEST.position}
        where, _, messages = text.partition("/")
        position = ends.get(where) or Position.parse(where)
        found = pb.MessageIdData(
            ledgerId=unsigned64(position.ledger_id), entryId=unsigned64(position.entry_id)
        )
        if messages:
            first, end, _ = self.stage.topic().lookup(*position)
            pending = AckSet.full(end - first)
            numbers = [int(number) for number in messages.split(",")]
            if for_ack:
                for number in numbers:
                    pending = pending.without(number)
            else:
                pending = pending.without_before(numbers[0])
            found.ack_set.extend(pending.to_ack_words())
        return found


def _join(lines: list[str], head: str, token: str, tail: str = "") -> None:
    """One line for what comes in one go."""
    ending = f" {tail}" if tail else ""
    if lines and lines[-1].startswith(f"{head} ") and lines[-1].endswith(ending):
        before = lines[-1][: len(lines[-1]) - len(ending)] if ending else lines[-1]
        if ending or "epoch=" not in before:
            lines[-1] = f"{before} {token}{ending}"
            return
    lines.append(f"{head} {token}{ending}")


def _shown(delivery: Delivery) -> str:
    text = f"{delivery.ledger_id}:{delivery.entry_id}"
    if delivery.ack_set:
        count = message_count(split_entry(delivery.entry).metadata)
        pending = AckSet.from_message_words(delivery.ack_set, count)
        shown = [str(number) for number in range(count) if is_pending(pending, number)]
        text += f"[{','.join(shown)}]"
    if delivery.redelivery_count:
        text += f"*{delivery.redelivery_count}"
    return text


def _text(message_id: pb.MessageIdData) -> str:
    return f"{signed64(message_id.ledgerId)}:{signed64(message_id.entryId)}"
