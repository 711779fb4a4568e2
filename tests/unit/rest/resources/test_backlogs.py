"""A backlog looked through: upstream's fields, and messages that are exact."""

from __future__ import annotations

from stage.frames import batch, message
from stage.http import Web

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.wire.events import WireId

PATH = "t/subscription/s/analyzeBacklog"


def test_what_is_not_acked_is_counted(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=99)
    stage.publish(stage.producer(topic), message(0), batch(1, 3), message(4), batch(5, 4))
    stage.ack(consumer, WireId(1, 0), WireId(1, 2), WireId(1, 1, ack_set=(0b101,)))
    everything = web(f"POST {PATH}").json
    assert everything == {
        "entries": 2,
        "messages": 6,
        "markerMessages": 0,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": 2,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": 6,
        "filterRescheduledMessages": 0,
        "aborted": False,
        "firstMessageId": "1:1",
        "lastMessageId": "1:3",
    }
    assert web(f"POST {PATH}", {"ledgerId": -1, "entryId": -1}).json == everything
    behind = web(f"POST {PATH}", {"ledgerId": 1, "entryId": 2}).json
    assert (behind["entries"], behind["messages"]) == (1, 4)
    nothing = web(f"POST {PATH}", {"ledgerId": 9, "entryId": 0}).json
    assert (nothing["entries"], "firstMessageId" in nothing) == (0, False)


def test_what_is_not_there_is_not_found(web: Web) -> None:
    web.stage.topic()
    missing = web("POST t/subscription/nobody/analyzeBacklog")
    assert (missing.status, "nobody" in missing.reason) == (404, True)
    assert web("POST none/subscription/s/analyzeBacklog").status == 404
    assert web(f"POST {PATH}", {"ledgerId": "x"}).status == 400
