"""PIP-415: the message id by index. One test a sentence that promises something of the broker.

The proposal's `pulsar-admin topics get-message-id-by-index` is tested with the command line. What we add
to it, `precise=true` and the way back, has its tests behind those of the sentences.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI
from stage.frames import batch, chunk, marker, message
from stage.http import Answer, Request, call
from stage.security import SECURED, bearer
from stage.stage import Stage

from milepost.positions.ids import Position
from milepost.positions.names import TopicName
from milepost.rest.app import create_app
from milepost.wire.batches import split_batch
from milepost.wire.metadata import is_batch, message_count, split_entry

MakeStage = Callable[..., Stage]

PATH = "/admin/v2/persistent/public/default"
BY_INDEX = "getMessageIdByIndex"
EARLIEST = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}


def get(stage: Stage, target: str, app: FastAPI | None = None) -> Answer:
    return stage.run(call(app or create_app(stage.broker), Request("GET", target)))


def by_index(stage: Stage, index: int | str, topic: str = "t", **query: Any) -> Answer:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    return get(stage, f"{PATH}/{topic}/{BY_INDEX}?index={index}{more}")


def id_at(stage: Stage, index: int, topic: str = "t", **query: Any) -> dict[str, int]:
    answer = by_index(stage, index, topic, **query)
    assert answer.status == 200, answer
    found: dict[str, int] = answer.json
    return found


def entry(entry_id: int, ledger_id: int = 1, partition: int = -1) -> dict[str, int]:
    return {"ledgerId": ledger_id, "entryId": entry_id, "partitionIndex": partition}


def published(stage: Stage, *frames: bytes, topic: str = "t") -> Stage:
    opened = stage.topic(f"persistent://public/default/{topic}")
    stage.publish(stage.producer(opened), *frames)
    return stage


def trimmed(stage: Stage, before_index: int) -> None:
    log = stage.topic().log
    stage.checkpoint()
    stage.store.trim(log, before_index)
    for subscription in stage.topic().subscriptions.values():
        subscription.trim(log.first_index)
    stage.turn()


@pytest.fixture(params=[False, True], ids=["", "after a restart"])
def settle(request: pytest.FixtureRequest) -> Callable[[Stage], Stage]:
    """What was published is looked for by the same process, or by the next one."""
    return Stage.restarted if request.param else lambda stage: stage


# -- the response -----------------------------------------------------------------------------------


def test_an_unbatched_message_is_found(stage: Stage, settle: Callable[[Stage], Stage]) -> None:
    """ "Retrieve the message ID associated with a specific message index in a topic." """
    stage = settle(published(stage, *(message(number) for number in range(5))))
    assert [id_at(stage, index) for index in range(5)] == [entry(number) for number in range(5)]


@pytest.mark.parametrize(("index", "found"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)])
def test_a_batch_is_found_by_the_index_of_each_of_its_messages(
    stage: Stage, settle: Callable[[Stage], Stage], index: int, found: int
) -> None:
    """ "Param indexes 0,1,2 or 3,4 will return the same MessageID (e.g., MessageId(0:0:*) for Entry A)."

    Entry A holds the messages 0, 1, 2, and entry B 3, 4.
    """
    stage = settle(published(stage, batch(0, 3), batch(3, 2)))
    assert id_at(stage, index) == entry(found)


def test_every_chunk_has_its_own_id(stage: Stage, settle: Callable[[Stage], Stage]) -> None:
    """ "the resolution is limited to the entry level (an entry is the minimal storage unit for messages in
    Pulsar's persistence layer)"

    A chunk is an entry, and takes an index.
    """
    stage = settle(published(stage, message(0), *(chunk(1, n, 3) for n in range(3)), message(2)))
    assert [id_at(stage, index) for index in range(5)] == [entry(number) for number in range(5)]


def test_the_partition_is_told(stage: Stage, settle: Callable[[Stage], Stage]) -> None:
    """ "partitionIndex: Partition index (relevant for partitioned topics; -1 for non-partitioned topics)."

    And: "either the specific partition name of a partitioned topic (e.g. my-topic-partition-0) or the
    original topic name for non-partitioned topics".
    """
    base = TopicName.parse("persistent://public/default/many")
    stage.run(stage.broker.create_partitioned_topic(base, 3))
    stage = settle(published(stage, message(0), topic="many-partition-2"))
    assert id_at(stage, 0, "many-partition-2") == entry(0, partition=2)


def test_a_system_message_is_passed_over(stage: Stage, settle: Callable[[Stage], Stage]) -> None:
    """ "If the index points to a system message, return the first user message following it" """
    stage = settle(published(stage, message(0), marker(1), marker(2), batch(3, 2)))
    assert [id_at(stage, index)["entryId"] for index in range(5)] == [0, 3, 3, 3, 3]


def test_many_system_messages_are_passed_over(make_stage: MakeStage) -> None:
    """The same across ledgers, and more of them than are looked at in one go."""
    stage = make_stage(ledger_entries_max=700)
    for first in range(0, 3000, 500):
        published(stage, *(marker(first + number) for number in range(500)))
    published(stage, message(3000))
    assert id_at(stage, 1) == id_at(stage, 3000)


def test_behind_the_last_user_message_there_is_nothing(stage: Stage) -> None:
    """Where only system messages follow, no user message does."""
    published(stage, message(0), marker(1))
    answer = by_index(stage, 1)
    assert answer.status == 404
    assert "only system messages" in answer.reason


def test_what_has_expired_is_the_earliest(
    make_stage: MakeStage, settle: Callable[[Stage], Stage]
) -> None:
    """ "if the specified message has expired and been deleted, return MessageId.Earliest" """
    stage = make_stage(ledger_entries_max=2)
    for sequence_id in range(0, 12, 3):
        published(stage, batch(sequence_id, 3))
    trimmed(stage, 6)
    stage = settle(stage)
    assert [id_at(stage, index) for index in range(6)] == [EARLIEST] * 6
    first = id_at(stage, 6)
    assert first["ledgerId"] > 1
    assert id_at(stage, 8) == first


def test_all_that_has_expired_is_the_earliest(make_stage: MakeStage) -> None:
    """The same where nothing is left."""
    stage = make_stage()
    published(stage, message(0), message(1))
    stage.topic().log.roll(0, lambda error: None)
    stage.turn()
    trimmed(stage, 2)
    assert id_at(stage, 1) == EARLIEST
    assert by_index(stage, 2).status == 404


def test_the_body_is_as_shown(stage: Stage) -> None:
    """ "Body Format: { ledgerId, entryId, partitionIndex }" """
    published(stage, batch(0, 3))
    answer = by_index(stage, 1)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {"ledgerId": 1, "entryId": 0, "partitionIndex": -1}


# -- errors -----------------------------------------------------------------------------------------


def test_another_brokers_topic_is_redirected(stage: Stage) -> None:
    """ "307 Temporary Redirect: The current broker does not own this topic. Redirect to the correct
    broker." """
    published(stage, message(0))
    app = create_app(stage.broker)
    app.state.owner_of = lambda name: "http://there:8080" if name.local_name == "t" else None
    answer = get(stage, f"{PATH}/t/{BY_INDEX}?index=0&precise=true", app)
    assert answer.status == 307
    assert answer.headers["location"] == (
        f"http://there:8080{PATH}/t/{BY_INDEX}?index=0&precise=true&authoritative=true"
    )


def test_who_may_not_consume_is_forbidden(make_stage: MakeStage) -> None:
    """ "403 Forbidden: Client lacks permissions to access the topic/namespace."

    Whether the topic, or the index, is there or not.
    """
    stage = make_stage(**SECURED)
    published(stage, message(0))
    app = create_app(stage.broker)

    def asked(topic: str, headers: dict[str, str]) -> int:
        target = f"{PATH}/{topic}/{BY_INDEX}?index=0"
        return stage.run(call(app, Request("GET", target, b"", headers))).status

    assert [asked(topic, bearer("stranger")) for topic in ("t", "none")] == [403, 403]
    assert [asked(topic, {}) for topic in ("t", "none")] == [401, 401]
    assert [asked(topic, bearer("root")) for topic in ("t", "none")] == [200, 404]


@pytest.mark.parametrize("path", [f"{PATH}/none", "/admin/v2/persistent/public/none/t"])
def test_a_topic_or_namespace_that_is_missing_is_not_found(stage: Stage, path: str) -> None:
    """ "404 Not Found: Topic/namespace does not exist" """
    answer = get(stage, f"{path}/{BY_INDEX}?index=0")
    assert answer.status == 404
    assert answer.reason
    assert not stage.broker.topics


@pytest.mark.parametrize("index", [-1, -5, 3, 4, 10**6, 2**63, 10**20])
def test_an_invalid_index_is_not_found(
    stage: Stage, settle: Callable[[Stage], Stage], index: int
) -> None:
    """ "An index value of -1 or one that exceeds the maximum index range is considered invalid." """
    stage = settle(published(stage, batch(0, 3)))
    assert by_index(stage, index).status == 404


def test_an_empty_topic_has_no_index(stage: Stage) -> None:
    stage.topic()
    assert by_index(stage, 0).status == 404


def test_a_topic_that_is_not_persistent_is_not_acceptable(stage: Stage) -> None:
    """ "406 Not Acceptable: The topic is not a persistent topic." """
    answer = get(stage, f"/admin/v2/non-persistent/public/default/t/{BY_INDEX}?index=0")
    assert answer.status == 406
    assert "not persistent" in answer.reason


def test_without_broker_entry_metadata_the_precondition_fails(make_stage: MakeStage) -> None:
    """ "412 Precondition Failed: The broker is not configured to enable broker entry metadata." """
    stage = make_stage(broker_entry_metadata=False)
    published(stage, message(0))
    assert by_index(stage, 0).status == 412
    assert by_index(stage, -1).status == 412
    assert get(stage, f"{PATH}/t/getIndexByMessageId?ledgerId=1&entryId=0").status == 412


def test_a_partitioned_topic_as_a_whole_has_no_indexes(stage: Stage) -> None:
    """The proposal does not say it; upstream answers 405."""
    base = TopicName.parse("persistent://public/default/many")
    stage.run(stage.broker.create_partitioned_topic(base, 2))
    assert by_index(stage, 0, "many").status == 405


@pytest.mark.parametrize(
    "query",
    [
        "index=",
        "index=1e3",
        "index=%205",
        "index=%EF%BC%90",
        "index=x",
        "index=0&index=0",
        "index=0&precise=maybe",
        "index=0&authoritative=2",
        "index=%2B1",
        "index=0x1",
        "index=1_0",
        "precise=true",
    ],
)
def test_what_is_no_number_is_a_bad_request(stage: Stage, query: str) -> None:
    """ "index: long, required" """
    published(stage, message(0))
    answer = get(stage, f"{PATH}/t/{BY_INDEX}?{query}")
    assert answer.status == 400, answer
    assert answer.reason.startswith("query ")


def test_the_operation_is_described(stage: Stage) -> None:
    """ "Add a new admin API endpoint" """
    paths = get(stage, "/openapi.json").json["paths"]
    operation = paths[f"/admin/v2/{{domain}}/{{tenant}}/{{namespace}}/{{topic}}/{BY_INDEX}"]["get"]
    names = [(one["in"], one["name"], one["required"]) for one in operation["parameters"]]
    assert names == [
        ("path", "domain", True),
        ("path", "tenant", True),
        ("path", "namespace", True),
        ("path", "topic", True),
        ("query", "index", True),
        ("query", "authoritative", False),
        ("query", "precise", False),
    ]


# -- beyond the proposal ----------------------------------------------------------------------------


def test_precise_adds_the_place_in_the_batch(
    stage: Stage, settle: Callable[[Stage], Stage]
) -> None:
    """The proposal leaves it to the client; here it costs nothing: the count stands beside the entry."""
    stage = settle(published(stage, message(0), batch(1, 3), marker(4), batch(5, 1)))
    places = [id_at(stage, index, precise="true") for index in range(6)]
    assert [(one["entryId"], one["batchIndex"], one["batchSize"]) for one in places] == [
        (0, -1, 0),
        (1, 0, 3),
        (1, 1, 3),
        (1, 2, 3),
        (3, 0, 1),
        (3, 0, 1),
    ]


def test_the_way_back(stage: Stage, settle: Callable[[Stage], Stage]) -> None:
    """ "We can retrieve the message index using a message ID, but lack the reverse capability" """
    stage = settle(published(stage, message(0), batch(1, 3), *(chunk(4, n, 2) for n in range(2))))

    def index_of(entry_id: int, batch_index: int = -1) -> tuple[int, ...]:
        query = f"ledgerId=1&entryId={entry_id}&batchIndex={batch_index}"
        answer = get(stage, f"{PATH}/t/getIndexByMessageId?{query}")
        return tuple(answer.json.values()) if answer.status == 200 else (answer.status,)

    assert [index_of(number) for number in range(4)] == [(0, 0, 0), (1, 1, 3), (4, 4, 4), (5, 5, 5)]
    assert [index_of(1, number)[0] for number in range(4)] == [1, 2, 3, 404]
    assert index_of(0, 0) == (0, 0, 0)
    assert index_of(0, 1) == index_of(4) == (404,)


class Truth(NamedTuple):
    """What was published: a payload for each index, and the indexes of system messages."""

    payloads: list[bytes]
    markers: set[int]


def publish_at_random(stage: Stage, count: int, seed: int) -> Truth:
    rng = random.Random(seed)
    payloads: list[bytes] = []
    markers: set[int] = set()
    producer = stage.producer(stage.topic())
    while len(payloads) < count:
        frames: list[bytes] = []
        for _ in range(200):
            sequence_id = len(payloads)
            kind = rng.random()
            if kind < 0.4:
                frames.append(message(sequence_id))
                payloads.append(b"%d" % sequence_id)
            elif kind < 0.9:
                size = rng.randint(1, 9)
                frames.append(batch(sequence_id, size))
                payloads += [b"%d.%d" % (sequence_id, number) for number in range(size)]
            elif kind < 0.96:
                chunks = rng.randint(2, 4)
                frames += [chunk(sequence_id, number, chunks) for number in range(chunks)]
                payloads += [b"%d/%d" % (sequence_id, number) for number in range(chunks)]
            else:
                frames.append(marker(sequence_id))
                markers.add(sequence_id)
                payloads.append(b"")
        stage.publish(producer, *frames)
    return Truth(payloads, markers)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("count", "published", "ledger_entries"),
    [(400, 6_000, 97), pytest.param(5_000, 20_000, 997, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_ten_thousand_messages_there_and_back(
    make_stage: MakeStage, restart: bool, count: int, published: int, ledger_entries: int
) -> None:
    """ "After these three works, we can now obtain the index of a message by its message id": index → id →
    message → index, for 5,000 random messages before a restart and as many behind it."""
    stage = make_stage(ledger_entries_max=ledger_entries, tail_size=0)
    truth = publish_at_random(stage, published, seed=415)
    first = stage.topic().log.ledgers[2].first_index
    trimmed(stage, first)
    if restart:
        stage = stage.restarted()
    log = stage.topic().log
    assert (log.first_index, log.end_index) == (first, len(truth.payloads))
    assert len(log.ledgers) > 4
    messages = [n for n in range(first, log.end_index) if n not in truth.markers]
    asked = random.Random(54).sample(messages, count)
    app = create_app(stage.broker)

    async def there_and_back(index: int) -> None:
        target = f"{PATH}/t/{BY_INDEX}?index={index}&precise=true"
        found = (await call(app, Request("GET", target))).json
        position = Position(found["ledgerId"], found["entryId"])
        (stored,) = stage.here(lambda: log.read(position, entries_max=1))
        parts = split_entry(bytes(stored.payload))
        payload = parts.payload
        if is_batch(parts.metadata):
            count = message_count(parts.metadata)
            assert found["batchSize"] == count
            payload = split_batch(payload, count)[found["batchIndex"]].payload
        assert payload == truth.payloads[index]
        query = f"ledgerId={position.ledger_id}&entryId={position.entry_id}"
        target = f"{PATH}/t/getIndexByMessageId?{query}&batchIndex={found['batchIndex']}"
        back = await call(app, Request("GET", target))
        assert back.json["index"] == index, (index, found)

    async def every_one() -> None:
        for index in asked:
            await there_and_back(index)

    stage.run(every_one())
