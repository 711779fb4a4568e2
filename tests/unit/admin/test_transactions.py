"""Calls about transactions."""

from __future__ import annotations

import pytest
from unit.admin.conftest import Played

from milepost.admin import transactions
from milepost.admin.face import SyncFace
from milepost.errors import InvalidInput

BASE = "/admin/v3/transactions"


def test_each_call_asks_upstreams_path() -> None:
    transport = Played([], {}, {}, {}, b"", b"")
    face = SyncFace(transport)
    face.run(transactions.list_coordinators())
    face.run(transactions.get_slow_transactions(5000, 0))
    face.run(transactions.get_pending_ack_stats("t", "a b", low_water_marks=True))
    face.run(transactions.get_position_stats_in_pending_ack("t", "s", 1, 2, 3))
    face.run(transactions.abort_transaction(0, 17))
    face.run(transactions.scale_transaction_coordinators(4))
    assert [f"{one.method} {one.target}" for one in transport.asked] == [
        f"GET {BASE}/coordinators",
        f"GET {BASE}/slowTransactions/5000?coordinatorId=0",
        f"GET {BASE}/pendingAckStats/public/default/t/a%20b?lowWaterMarks=true",
        f"GET {BASE}/positionStatsInPendingAck/public/default/t/s/1/2?batchIndex=3",
        f"POST {BASE}/abortTransaction/0/17",
        f"POST {BASE}/transactionCoordinator/replicas",
    ]
    assert transport.asked[-1].body == b"4"


def test_a_topic_that_is_not_persistent_has_no_transactions() -> None:
    with pytest.raises(InvalidInput, match="not persistent"):
        SyncFace(Played()).run(transactions.get_transaction_buffer_stats("non-persistent://a/b/c"))
