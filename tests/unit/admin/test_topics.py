"""Calls about topics that read lists and ids, or ask more than once."""

from __future__ import annotations

import pytest
from unit.admin.conftest import Played

from milepost.admin import topics
from milepost.admin.errors import Missing
from milepost.admin.face import SyncFace
from milepost.errors import InvalidTopicName
from milepost.positions import MessageId

PLAIN = "persistent://a/b/c"
FLEETING = "non-persistent://a/b/d"


def test_topics_of_both_domains() -> None:
    transport = Played([PLAIN], [FLEETING])
    assert SyncFace(transport).run(topics.list_topics("a/b")) == [PLAIN, FLEETING]
    assert [one.target for one in transport.asked] == [
        "/admin/v2/persistent/a/b",
        "/admin/v2/non-persistent/a/b",
    ]


def test_topics_of_one_domain() -> None:
    transport = Played([FLEETING])
    listed = topics.list_topics("a/b", domain="non-persistent", include_system=True)
    assert SyncFace(transport).run(listed) == [FLEETING]
    assert transport.asked[0].target == "/admin/v2/non-persistent/a/b?includeSystemTopic=true"


def test_partitioned_topics() -> None:
    transport = Played([PLAIN], [FLEETING])
    assert SyncFace(transport).run(topics.list_partitioned_topics("a/b")) == [PLAIN, FLEETING]
    assert [one.target for one in transport.asked] == [
        "/admin/v2/persistent/a/b/partitioned",
        "/admin/v2/non-persistent/a/b/partitioned",
    ]


def test_a_broker_without_non_persistent_topics_has_the_others() -> None:
    assert SyncFace(Played([PLAIN], 404)).run(topics.list_topics("a/b")) == [PLAIN]


def test_a_namespace_that_is_not_there_is_missing() -> None:
    with pytest.raises(Missing, match="played"):
        SyncFace(Played(404)).run(topics.list_topics("a/b"))


def test_partitions_are_looked_up_one_by_one() -> None:
    transport = Played({"partitions": 2}, {"brokerUrl": "x"}, {"brokerUrl": "y"})
    found = SyncFace(transport).run(topics.lookup_partitioned_topic(PLAIN))
    assert found == {
        f"{PLAIN}-partition-0": {"brokerUrl": "x"},
        f"{PLAIN}-partition-1": {"brokerUrl": "y"},
    }


def test_the_end_of_a_terminated_topic() -> None:
    id_json = {"ledgerId": 5, "entryId": 9, "partitionIndex": 1}
    assert SyncFace(Played(id_json)).run(topics.terminate_topic(PLAIN)) == MessageId(5, 9, 1)
    found = SyncFace(Played({"0": id_json})).run(topics.terminate_partitioned_topic(PLAIN))
    assert found == {0: MessageId(5, 9, 1)}


def test_what_is_no_name_is_refused_before_anybody_is_asked() -> None:
    transport = Played()
    with pytest.raises(InvalidTopicName):
        SyncFace(transport).run(topics.create_topic("a/b/c/d/e"))
    assert transport.asked == []


def test_what_is_lost() -> None:
    lost = {"ledgerId": 7, "firstIndex": 3, "endIndex": 5, "reason": "cut", "foundMs": 1}
    transport = Played([lost], [lost])
    assert SyncFace(transport).run(topics.get_losses(PLAIN)) == [lost]
    assert SyncFace(transport).run(topics.accept_loss(PLAIN)) == [lost]
    assert [(one.method, one.target) for one in transport.asked] == [
        ("GET", "/admin/v2/persistent/a/b/c/losses"),
        ("POST", "/admin/v2/persistent/a/b/c/acceptLoss"),
    ]
