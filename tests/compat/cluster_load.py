"""Clients of a cluster that has faults: what they ask for, hear and receive is written down for the checker.

For each topic, the official Python client publishes, consumes and seeks; Milepost's client publishes with
sequence ids of its own and sends again whatever has no answer, and some of what has one; it consumes with
acks that are answered, seeks, and is reset by an operator; the official Java client, where it can be had,
publishes batches, consumes with acks that are answered, and seeks (`java_client/Faults.java`).

Consumers come anew every few seconds: what was acked durably before must not come again. Seeks and resets
have subscriptions of their own, each until the outcome of one is not known.

The official Python client (3.13) answers a seek whose connection is lost as if it had been obeyed, and says
the truth in its log: such a seek counts as one of unknown outcome. It does not tell the index of a message.
Where it is missing in the history it is filled in from the scan at the end of a round, by the name of the
message: an index is fixed for ever.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pulsar
from compat.broker_process import BrokerProcess
from compat.test_cluster import WAIT_S, place_of

import milepost
from milepost.errors import MilepostError
from milepost.testing.checker import History

RECEIVE_MS = 200


# The official client keeps the first logger of a process for all clients of it. Whether a seek has failed is
# in that file alone: the client tells its caller that all is well.
_OFFICIAL_LOGS: list[Path] = []


class Known(NamedTuple):
    """A message that a consumer has received."""

    name: str
    place: list[int]
    id: Any
    index: int


class Load:
    """Threads that publish, consume and seek until they are told to stop."""

    def __init__(
        self, history: History, brokers: list[BrokerProcess], seed: int, log: Path
    ) -> None:
        """`log`: where the official client says what it meets."""
        self.history = history
        self.brokers = brokers
        self.random = Random(seed)
        self.has_published = threading.Event()
        """Publish no more."""
        self.over = threading.Event()
        self.failures: list[str] = []
        if not _OFFICIAL_LOGS:
            _OFFICIAL_LOGS.append(log)
        self.client = pulsar.Client(
            "pulsar://" + ",".join(f"127.0.0.1:{one.port}" for one in brokers),
            # A broker that is paused for 30 s takes connections and requests and says nothing, and its
            # client finds out when the keep-alive of 30 s is over: a subscription may take as long as both.
            # A producer fails for good when its connection takes longer than the default of 10 s.
            operation_timeout_seconds=WAIT_S,
            connection_timeout_ms=60_000,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(_OFFICIAL_LOGS[0])),
        )
        self.url = "pulsar://" + ",".join(f"127.0.0.1:{one.port}" for one in brokers)
        self._publishing: list[threading.Thread] = []
        self._others: list[threading.Thread] = []

    def start(self, names: list[str]) -> None:
        for name in names:
            self.history.note("topic", topic=name, deduplicated=True)
            # It acks nothing, so nothing is trimmed.
            earliest = pulsar.InitialPosition.Earliest
            self.client.subscribe(name, "keeper", initial_position=earliest).close()
            for work in (self.publish, self.publish_ours):
                self._publishing.append(self._started(work, name))
            for work in (self.consume, self.consume_ours, self.seek, self.seek_ours, self.reset):
                self._others.append(self._started(work, name))

    def _started(self, work: Callable[[str], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(work, name), daemon=True)
        thread.start()
        return thread

    def _run(self, work: Callable[[str], None], name: str) -> None:
        try:
            work(name)
        except BaseException as error:
            self.failures.append(f"{work.__name__} {name}: {type(error).__name__}: {error}")
            raise

    def end_publishing(self) -> None:
        self.has_published.set()
        self._join(self._publishing)

    def stop(self) -> None:
        self.over.set()
        self._join(self._others)

    def _join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(2 * WAIT_S)
        assert not self.failures, self.failures
        assert not any(thread.is_alive() for thread in threads), "a thread does not end"

    # -- publishing ----------------------------------------------------------------------------------

    def publish(self, name: str) -> None:
        # Without a first number this client begins again at 0 when it reconnects before its first receipt,
        # and deduplication takes what it sends then for what it sent before. The wheel takes 0 for none.
        producer = self.client.create_producer(
            name,
            producer_name="p",
            initial_sequence_id=1,
            send_timeout_millis=0,
            block_if_queue_full=True,
        )

        def told(asked: int, result: pulsar.Result, sent: pulsar.MessageId) -> None:
            if result.value:
                self.history.unknown(asked)
            else:
                self.history.ok(asked, id=place_of(sent) if sent.entry_id() >= 0 else None)

        n = 0
        while not self.has_published.is_set():
            asked = self.history.invoke("publish", topic=name, message=f"p-{n}", by="p")
            producer.send_async(
                b"p-%d" % n, lambda result, sent, asked=asked: told(asked, result, sent)
            )
            n += 1
            time.sleep(0.05)  # sleep: a steady load, not as fast as it goes
        producer.flush()

    def publish_ours(self, name: str) -> None:
        """Number the messages, and send one again until it has its receipt."""
        random = Random(f"{self.random.random()} {name}")
        n, asked = 0, None
        while not self.has_published.is_set() or asked is not None:
            until = time.monotonic() + random.uniform(2, 6)
            with suppress(MilepostError), milepost.Client(self.url, **_PATIENCE) as client:
                producer = client.create_producer(
                    name, producer_name="ours", send_timeout_millis=5000
                )
                while time.monotonic() < until:
                    if asked is None and self.has_published.is_set():
                        break
                    if asked is None:
                        asked = self.history.invoke(
                            "publish", topic=name, message=f"ours-{n}", by="ours"
                        )
                    found = producer.send(b"ours-%d" % n, sequence_id=n)
                    self.history.ok(asked, id=_place(found))
                    asked, n = None, n + 1
                    if random.random() < 0.1:
                        producer.send(b"ours-%d" % (n - 1), sequence_id=n - 1)  # it is there
                    time.sleep(0.02)  # sleep: a steady load, not as fast as it goes

    # -- consuming -----------------------------------------------------------------------------------

    def consume(self, name: str) -> None:
        by = "official"
        consumer = self.client.subscribe(
            name,
            "official",
            pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        self.history.note("join", topic=name, sub="official", by=by, mode="queue")
        while not self.over.is_set():
            with suppress(pulsar.Timeout):
                message = consumer.receive(RECEIVE_MS)
                text, place = message.data().decode(), place_of(message.message_id())
                self.history.note(
                    "receive", topic=name, sub="official", by=by, message=text, id=place
                )
                consumer.acknowledge(message)

    def consume_ours(self, name: str) -> None:
        life = 0
        while not self.over.is_set():
            life += 1
            with suppress(MilepostError), milepost.Client(self.url, **_PATIENCE) as client:
                until = time.monotonic() + self.random.uniform(2, 6)
                ours = self._join_ours(client, name, "ours", f"ours-{life}", is_shared=True)
                while time.monotonic() < until and not self.over.is_set():
                    ours.take(self.random.randrange(1, 40), acks=1.0)

    def _join_ours(
        self, client: milepost.Client, name: str, sub: str, by: str, *, is_shared: bool = False
    ) -> Ours:
        """Consume with Milepost's client. One that is alone gets the target of a seek first."""
        self.history.note("join", topic=name, sub=sub, by=by, mode="queue", alone=not is_shared)
        kind = milepost.ConsumerType.Shared if is_shared else milepost.ConsumerType.Exclusive
        consumer = client.subscribe(
            name,
            sub,
            consumer_type=kind,
            receiver_queue_size=50,
            initial_position=milepost.InitialPosition.Earliest,
        )
        return Ours(self.history, consumer, {"topic": name, "sub": sub, "by": by}, self.random)

    # -- seeks and resets ----------------------------------------------------------------------------

    def _episodes(self, kind: str) -> Iterator[tuple[str, float]]:
        """The names of subscriptions, and until when each is used."""
        number = 0
        while not self.over.is_set():
            number += 1
            yield f"{kind}-{number}", time.monotonic() + self.random.uniform(6, 12)

    def seek(self, name: str) -> None:
        for sub, until in self._episodes("sought"):
            self.history.note("join", topic=name, sub=sub, by=sub, mode="queue")
            try:
                consumer = self.client.subscribe(
                    name,
                    sub,
                    initial_position=pulsar.InitialPosition.Earliest,
                    start_message_id_inclusive=True,
                )
            except pulsar.PulsarException:
                continue
            known: list[Known] = []
            group = {"topic": name, "sub": sub, "by": sub}
            while time.monotonic() < until and not self.over.is_set():
                if not self._seek_once(consumer, group, known):
                    break
            with suppress(pulsar.PulsarException):
                consumer.close()

    def _seek_once(self, consumer: Any, group: dict[str, str], known: list[Known]) -> bool:
        """Receive some, and go to one of them; False if that was not answered."""
        for _ in range(self.random.randrange(20)):
            try:
                message = consumer.receive(RECEIVE_MS)
            except pulsar.Timeout:
                break
            text, place = message.data().decode(), place_of(message.message_id())
            self.history.note("receive", **group, message=text, id=place)
            if place[2] < 0:  # of a batch this client tells the broker no index
                known.append(Known(text, place, message.message_id(), -1))
        if not known:
            return True
        target = self.random.choice(known)
        asked = self.history.invoke("seek", **group, index=0, note={"to": target.name})
        failed_before = self._failed_seeks(group)
        try:
            consumer.seek(target.id)
            is_certain = self._failed_seeks(group) == failed_before
        except pulsar.PulsarException:
            is_certain = False
        if is_certain:
            self.history.ok(asked)
        else:
            self.history.unknown(asked)
        return is_certain

    def _failed_seeks(self, group: dict[str, str]) -> int:
        """How many seeks of a subscription have failed, as the official client's log has it."""
        whose = f"[{group['topic']}, {group['sub']}, "
        with suppress(FileNotFoundError):
            lines = _OFFICIAL_LOGS[0].read_text("utf-8", errors="replace").splitlines()
            return sum(whose in line and "Failed to seek" in line for line in lines)
        return 0

    def seek_ours(self, name: str) -> None:
        for sub, until in self._episodes("ours-sought"):
            with suppress(MilepostError), milepost.Client(self.url, **_PATIENCE) as client:
                ours = self._join_ours(client, name, sub, sub)
                while time.monotonic() < until and not self.over.is_set():
                    ours.take(self.random.randrange(20), acks=0.3)
                    if ours.known:
                        ours.seek(self.random.choice(ours.known))

    def reset(self, name: str) -> None:
        """An operator moves the subscription; half of the time its consumer stays, or comes anew."""
        for sub, until in self._episodes("reset"):
            known: list[Known] = []
            life, is_certain = 0, True
            while is_certain and time.monotonic() < until and not self.over.is_set():
                life += 1
                with suppress(MilepostError), milepost.Client(self.url, **_PATIENCE) as client:
                    ours = self._join_ours(client, name, sub, f"{sub}-{life}")
                    ours.known = known
                    while is_certain and time.monotonic() < until and not self.over.is_set():
                        ours.take(self.random.randrange(20), acks=0.3)
                        if known:
                            is_certain = self._reset(name, sub, self.random.choice(known))
                            if self.random.random() < 0.5:
                                break

    def _reset(self, name: str, sub: str, to: Known) -> bool:
        """Over HTTP, at any of the brokers; False if it was not answered."""
        path = f"/admin/v2/{name.replace('://', '/')}/subscription/{sub}/resetcursor"
        ledger_id, entry_id, batch_index = to.place
        body = {"ledgerId": ledger_id, "entryId": entry_id, "batchIndex": batch_index}
        asked = self.history.invoke("reset", topic=name, sub=sub, by="operator", index=to.index)
        status = 0
        with suppress(OSError, http.client.HTTPException):
            status, _ = self.random.choice(self.brokers).rest("POST", path, body)
        if status == 204:
            self.history.ok(asked)
        else:
            self.history.unknown(asked)
        return status == 204


class Ours:
    """A consumer of Milepost's client."""

    def __init__(
        self, history: History, consumer: Any, group: dict[str, str], random: Random
    ) -> None:
        self.history = history
        self.random = random
        self.consumer = consumer
        self.group = group
        self.known: list[Known] = []

    def take(self, count: int, *, acks: float) -> None:
        """Receive up to so many messages that are there, and ack a share of them."""
        acked: list[Any] = []
        for _ in range(count):
            try:
                message = self.consumer.receive(timeout_millis=RECEIVE_MS)
            except milepost.Timeout:
                break
            text, found = message.data().decode(), message.message_id()
            place, index = _place(found), message.index()
            assert place is not None
            self.history.note("receive", **self.group, message=text, id=place, index=index)
            self.known.append(Known(text, place, found, index))
            if self.random.random() < acks:
                acked.append(message)
        if acked:
            names = [one.data().decode() for one in acked]
            asked = self.history.invoke("ack", **self.group, messages=names)
            try:
                self.consumer.acknowledge(acked)
            except MilepostError:
                self.history.unknown(asked)
                raise
            self.history.ok(asked)

    def seek(self, to: Known) -> None:
        """Go behind a message."""
        asked = self.history.invoke("seek", **self.group, index=to.index + 1)
        try:
            self.consumer.seek(to.id)
        except MilepostError:
            self.history.unknown(asked)
            raise
        self.history.ok(asked)


_PATIENCE: dict[str, Any] = {"operation_timeout_seconds": 10}


def _place(found: Any) -> list[int] | None:
    """None if the message was there already: its receipt has no id."""
    if not 0 <= found.entry_id < 1 << 63:
        return None
    return [found.ledger_id, found.entry_id, found.batch_index]


# -- Java ----------------------------------------------------------------------------------------------


class JavaLoad:
    """The official Java client, in a process of its own."""

    def __init__(self, class_path: str, load: Load, names: list[str], directory: Path) -> None:
        self.history = directory / "java.jsonl"
        self._log = (directory / "java.log").open("wb")
        command = ["java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += ["-cp", class_path, "Faults", load.url, str(self.history)]
        command += [str(load.random.randrange(1 << 30)), *names]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )

    def end_publishing(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"published\n", "the Java client has ended"

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(2 * WAIT_S) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for one in (self._process.stdin, self._process.stdout, self._log):
            if one is not None:
                with suppress(OSError):
                    one.close()


# -- the end of a round --------------------------------------------------------------------------------


def await_drained(broker: BrokerProcess, history: History, name: str, subs: Iterable[str]) -> None:
    """Return when subscriptions have no backlog: everything reached a consumer."""
    path = f"/admin/v2/{name.replace('://', '/')}/stats"
    deadline = time.monotonic() + 3 * WAIT_S
    for sub in subs:
        while True:
            status, stats = 0, None
            with suppress(OSError, http.client.HTTPException):  # the shard moves, for balance
                status, stats = broker.rest("GET", path)
            left = stats["subscriptions"][sub]["msgBacklog"] if status == 200 else -1
            if left == 0:
                break
            assert time.monotonic() < deadline, f"{name}: {left} messages do not reach {sub}"
            time.sleep(0.1)  # sleep: between two looks
        history.note("drained", topic=name, sub=sub)


def scan(brokers: list[BrokerProcess], history: History, name: str) -> dict[str, int]:
    """Everything that a reader sees, by a client that has not been through the faults: its indexes."""
    url = "pulsar://" + ",".join(f"127.0.0.1:{one.port}" for one in brokers)
    indexes: dict[str, int] = {}
    with milepost.Client(url) as client:
        reader = client.create_reader(name, milepost.MessageId.earliest)
        history.note("scan", topic=name, first=0)
        end = 0
        while reader.has_message_available():
            message = reader.read_next(timeout_millis=30_000)
            text, index = message.data().decode(), message.index()
            assert index is not None
            history.note(
                "stored", topic=name, message=text, id=_place(message.message_id()), index=index
            )
            indexes[text] = index
            end = index + 1
        history.note("scanned", topic=name, end=end)
    return indexes


def resolved(lines: Iterable[str], indexes: dict[str, dict[str, int]]) -> Iterator[str]:
    """A history with the indexes that one of its clients could not tell, by topic and message. No receipt
    says which broker gave it; its ledger stands for the owner: behind an answer from a ledger none may come
    from one before it, for what was asked later or among the indexes of the other."""
    sent: dict[int, tuple[str, str]] = {}
    for line in lines:
        event = json.loads(line)
        known = indexes.get(event.get("topic", ""), {})
        if event.get("op") == "publish" and event.get("is") == "invoke":
            sent[event["n"]] = event["topic"], event["message"]
        elif event.get("is") == "ok" and event.get("id") and event["n"] in sent:
            topic, message = sent[event["n"]]
            if (index := indexes.get(topic, {}).get(message)) is not None:
                yield json.dumps({**event, "index": index, "owner": event["id"][0]}) + "\n"
                continue
        if event.get("op") == "receive" and "index" not in event and event["message"] in known:
            event["index"] = known[event["message"]]
        elif event.get("op") == "seek" and (to := (event.get("note") or {}).get("to")) in known:
            event["index"] = known[to]
        else:
            yield line
            continue
        yield json.dumps(event) + "\n"
