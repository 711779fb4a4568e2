"""The broker is killed again and again under a mixed load of RocketMQ's and Pulsar's clients.

Official producers of both kinds and bare calls send to one topic, half messages among them; RocketMQ
consumers and a Pulsar consumer share one group. At the end everything is drained and read once more by its
offsets, and the history judged by `milepost.testing.checker`: no receipt is lost, no answered ack comes
again, no offset is given twice or left out, no half message is there without its commit. In
`make campaign` it is killed 25 times.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pulsar
import pytest
from compat.broker_process import BrokerProcess, not_on_workers
from stage.counts import campaign_count
from stage.official_rocketmq import rocketmq, started

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.testing.checker import History, judge

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
NUMBERS = itertools.count()
KILLS = campaign_count("MILEPOST_ROCKETMQ_KILLS", 3, 25)
TOPIC, OTHER, GROUP = "orders", "others", "g"
OK = 20000
# A machine that is busy with something else must not fail the test; a client that never comes back must.
REACH_TIMEOUT_S = 90.0


class Load:
    def __init__(
        self, broker: BrokerProcess, raw: Callable[[], Any], history: Path, seed: int
    ) -> None:
        self.broker = broker
        self.raw = raw
        """A new connection of bare calls."""
        self.dice = random.Random(seed)
        self.history = History(history)
        self.up = threading.Event()
        self.is_over = self.is_draining = False
        self.worked: dict[str, int] = {}
        """What each worker has done with the present broker."""
        self.transactions: dict[str, tuple[str, bool]] = {}
        """Those whose end was asked for and not answered: the id, and whether it is a commit."""
        self.receipts: list[tuple[int, str]] = []
        """Of the official producer: offset and message."""
        self.failures: list[BaseException] = []
        self._threads: dict[str, threading.Thread] = {}

    def begin(self, *workers: Callable[[str], None]) -> None:
        for number, work in enumerate(workers):
            name = f"{work.__name__}-{number}"
            self.worked[name] = 0
            self._threads[name] = threading.Thread(target=self._run, args=(work, name))
            self._threads[name].start()

    def _run(self, work: Callable[[str], None], name: str) -> None:
        drains = work == self.receiver
        while not self.is_over and (drains or not self.is_draining):
            if not self.up.wait(0.1):
                continue
            try:
                work(name)
            except grpc.RpcError:
                continue  # the broker is gone
            except BaseException as error:
                self.failures.append(error)
                return

    def join(self, *, without: str = "none") -> None:
        for name, thread in self._threads.items():
            if not name.startswith(without):
                thread.join(REACH_TIMEOUT_S)
                assert not thread.is_alive(), name
        assert not self.failures, self.failures

    # -- what workers do: until the broker is gone -------------------------------------------------

    def bare_sender(self, name: str) -> None:
        raw = self.raw()
        while self._goes_on():
            said = self._name(name)
            asked = self.history.invoke("publish", topic=TOPIC, message=said, by=name)
            try:
                answer = raw.call("SendMessage", sent(said))
            except grpc.RpcError:
                self.history.unknown(asked)
                raise
            self._published(asked, answer.status.code, answer.entries[0].offset)
            self.worked[name] += 1

    def official_sender(self, name: str) -> None:
        """It sends again by itself what was not answered, which may be stored twice: to its own topic."""
        configuration = rocketmq.ClientConfiguration(
            f"127.0.0.1:{self.broker.rocketmq_port}", rocketmq.Credentials(), request_timeout=5
        )
        producer = rocketmq.Producer(configuration, (OTHER,))
        try:
            started(producer)
        except Exception:
            return  # killed while it began
        try:
            while self._goes_on():
                said = self._name(name)
                message = rocketmq.Message()
                message.topic, message.body = OTHER, said.encode()
                try:
                    receipt = producer.send(message)
                except Exception:
                    return
                self.receipts.append((receipt.offset, said))
                self.worked[name] += 1
        finally:
            producer.shutdown()

    def pulsar_sender(self, name: str) -> None:
        client = pulsar.Client(self.broker.url, logger=QUIET)
        try:
            producer = client.create_producer(TOPIC, send_timeout_millis=60_000)
            while self._goes_on():
                said = self._name(name)
                asked = self.history.invoke("publish", topic=TOPIC, message=said, by=name)
                producer.send(said.encode())
                self.history.ok(asked)
                self.worked[name] += 1
        except pulsar.PulsarException:
            pass  # an outcome that is not written is unknown
        finally:
            client.close()

    def transactor(self, name: str) -> None:
        raw = self.raw()
        while self._goes_on():
            said = self._name(name)
            asked = self.history.invoke(
                "publish", topic=TOPIC, message=said, by=name, lane=said, txn=said
            )
            answer = raw.call("SendMessage", sent(said, message_type=pb.TRANSACTION))
            assert answer.status.code == OK, answer
            self.history.ok(asked)
            commits = self.dice.random() < 0.7
            self.transactions[said] = (answer.entries[0].transaction_id, commits)
            self.end(raw, said)
            self.worked[name] += 1

    def end(self, raw: Any, said: str) -> None:
        transaction_id, commits = self.transactions[said]
        request = pb.EndTransactionRequest(
            topic=pb.Resource(name=TOPIC),
            transaction_id=transaction_id,
            resolution=pb.COMMIT if commits else pb.ROLLBACK,
        )
        asked = self.history.invoke("commit" if commits else "abort", txn=said)
        code = raw.code("EndTransaction", request)
        # 40008: an earlier one counts, whose answer was lost with its broker.
        assert code in (OK, 40008), code
        self.history.ok(asked)
        del self.transactions[said]

    def receiver(self, name: str) -> None:
        raw = self.raw()
        self.history.note("join", topic=TOPIC, sub=GROUP, by=name, mode="connection")
        while not self.is_over and self.up.is_set():
            for message in raw.receive(TOPIC, GROUP, count=8, wait_s=0.3):
                system, said = message.system_properties, message.body.decode()
                self.history.note(
                    "receive",
                    topic=TOPIC,
                    sub=GROUP,
                    by=name,
                    message=said,
                    index=system.queue_offset,
                )
                if not self.is_draining and self.dice.random() < 0.2:
                    continue  # it comes again when the broker does
                self._ack(raw, name, said, system)
                self.worked[name] += 1

    def _ack(self, raw: Any, name: str, said: str, system: pb.SystemProperties) -> None:
        entry = pb.AckMessageEntry(receipt_handle=system.receipt_handle)
        request = pb.AckMessageRequest(
            group=pb.Resource(name=GROUP), topic=pb.Resource(name=TOPIC), entries=[entry]
        )
        asked = self.history.invoke("ack", topic=TOPIC, sub=GROUP, by=name, messages=[said])
        try:
            code = raw.code("AckMessage", request)
        except grpc.RpcError:
            self.history.unknown(asked)
            raise
        assert code == OK, code
        self.history.ok(asked)

    def pulsar_receiver(self, name: str) -> None:
        """It shares the group. Its acks ask for no answer, and are not judged here."""
        client = pulsar.Client(self.broker.url, logger=QUIET)
        try:
            consumer = client.subscribe(
                TOPIC,
                GROUP,
                pulsar.ConsumerType.Shared,
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=1,
            )
            self.history.note("join", topic=TOPIC, sub=GROUP, by=name, mode="queue")
            while not self.is_over and not self.is_draining and self.up.is_set():
                try:
                    message = consumer.receive(300)
                except pulsar.Timeout:
                    continue
                said = message.data().decode()
                self.history.note("receive", topic=TOPIC, sub=GROUP, by=name, message=said)
                consumer.acknowledge(message)
                self.worked[name] += 1
        except pulsar.PulsarException:
            pass
        finally:
            client.close()

    def _goes_on(self) -> bool:
        return not self.is_over and not self.is_draining and self.up.is_set()

    def _name(self, worker: str) -> str:
        return f"{worker}-{next(NUMBERS)}"

    def _published(self, asked: int, code: int, offset: int) -> None:
        assert code in (OK, 42900), code
        if code == OK:
            self.history.ok(asked, index=offset)
        else:
            self.history.fail(asked)

    # -- the nemesis -------------------------------------------------------------------------------

    def await_all(self) -> None:
        """Every worker has worked with the present broker."""
        deadline = time.monotonic() + REACH_TIMEOUT_S
        while not all(self.worked.values()):
            assert not self.failures, self.failures
            assert time.monotonic() < deadline, self.worked
            time.sleep(0.05)  # sleep: the nemesis's own clock

    def kill(self) -> None:
        time.sleep(self.dice.uniform(0.05, 0.5))  # sleep: the nemesis's own clock
        self.broker.kill()
        self.history.note("kill")
        self.up.clear()
        for name in self.worked:
            self.worked[name] = 0
        self.start()

    def start(self) -> None:
        self.history.note("start")
        self.broker.start()
        self.broker.settings["rocketmq_port"] = self.broker.rocketmq_port  # the same for clients
        self.up.set()

    def drain(self) -> None:
        """Everything that is left is received and acked, and every transaction ended."""
        raw, deadline = self.raw(), time.monotonic() + REACH_TIMEOUT_S
        for said in list(self.transactions):
            self.end(raw, said)
        path = f"/admin/v2/persistent/public/default/{TOPIC}/stats"
        while self.broker.rest("GET", path)[1]["subscriptions"][GROUP]["msgBacklog"]:
            assert not self.failures, self.failures
            assert time.monotonic() < deadline, "stuck"
            time.sleep(0.1)  # sleep: the receivers' own clock

    def scan(self, topic: str) -> dict[int, str]:
        """Everything once more, by offset."""
        raw, found = self.raw(), dict[int, str]()
        while messages := raw.receive(topic, "scan", count=32, wait_s=1):
            for one in messages:
                found[one.system_properties.queue_offset] = one.body.decode()
        assert sorted(found) == list(range(len(found)))
        return found

    def look_back(self) -> None:
        found = self.scan(TOPIC)
        self.history.note("scan", topic=TOPIC, first=0)
        for index, said in sorted(found.items()):
            self.history.note("stored", topic=TOPIC, message=said, id=[0, index, -1], index=index)
        self.history.note("scanned", topic=TOPIC, end=len(found))
        self.history.note("drained", topic=TOPIC, sub=GROUP)
        others = self.scan(OTHER)
        assert {index: others.get(index) for index, _ in self.receipts} == dict(self.receipts)
        assert len({index for index, _ in self.receipts}) == len(self.receipts)


def sent(said: str, **system: Any) -> pb.SendMessageRequest:
    properties = pb.SystemProperties(message_id=said, body_encoding=pb.IDENTITY, **system)
    message = pb.Message(
        topic=pb.Resource(name=TOPIC), system_properties=properties, body=said.encode()
    )
    return pb.SendMessageRequest(messages=[message])


@not_on_workers("RocketMQ clients are not served there")
@pytest.mark.timeout(3600 if KILLS > 3 else 400)
def test_nothing_answered_is_lost_or_comes_again_when_the_broker_is_killed(
    tmp_path: Path, make_raw: Callable[..., Any], make_topic: Callable[..., str]
) -> None:
    broker = BrokerProcess(tmp_path, rocketmq_port=0, deduplication=True, ledger_entries_max=400)
    path = tmp_path / "history.jsonl"
    load = Load(broker, lambda: make_raw(f"127.0.0.1:{broker.rocketmq_port}"), path, seed=1)
    try:
        load.start()
        for topic in (TOPIC, OTHER):
            make_topic(broker, topic)
        load.history.note("topic", topic=TOPIC)
        load.history.note("subscribe", topic=TOPIC, sub=GROUP)
        load.begin(
            load.bare_sender,
            load.official_sender,
            load.pulsar_sender,
            load.transactor,
            load.receiver,
            load.receiver,
            load.pulsar_receiver,
        )
        for _ in range(KILLS):
            load.await_all()
            load.kill()
        load.is_draining = True
        load.kill()  # what consumers hold is ready again
        load.join(without="receiver")
        load.drain()
        load.is_over = True
        load.join()
        load.look_back()
    finally:
        load.is_over = True
        load.history.close()
        broker.kill()
    assert not broker.complaints()
    verdict = judge(load.history.lines())
    assert not verdict.anomalies, "\n".join(verdict.report(path))
    did = verdict.events
    assert did["kill"] == KILLS + 1
    assert did["publish ok"] > 10 * KILLS
    assert did["ack ok"] > 10 * KILLS
    assert did["commit ok"] + did["abort ok"] > KILLS
    assert len(load.receipts) > KILLS
