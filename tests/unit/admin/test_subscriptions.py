"""Positions as upstream's JSON has them."""

from __future__ import annotations

from unit.admin.conftest import Played

from milepost.admin.face import SyncFace
from milepost.admin.subscriptions import get_subscriptions, position_json
from milepost.positions import EARLIEST, LATEST, MessageId


def test_positions() -> None:
    assert position_json(MessageId(3, 7, 1, 2)) == {
        "ledgerId": 3,
        "entryId": 7,
        "partitionIndex": 1,
        "batchIndex": 2,
    }
    assert position_json(EARLIEST) == {"ledgerId": -1, "entryId": -1}
    assert position_json(LATEST) == {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}


def test_names() -> None:
    assert SyncFace(Played(["s"])).run(get_subscriptions("a/b/c")) == ["s"]
