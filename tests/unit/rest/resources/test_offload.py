"""Offloading over REST, as Apache Pulsar 4.2.4 answers without an offloader."""

from __future__ import annotations

import pytest
from stage.http import Web

N = "/admin/v2/namespaces/public/default"


@pytest.mark.parametrize(
    ("path", "unset"),
    [
        ("offloadThreshold", b"-1"),
        ("offloadThresholdInSeconds", b"-1"),
        ("offloadDeletionLagMs", b""),
    ],
)
def test_one_field_has_a_call_of_its_own(web: Web, path: str, unset: bytes) -> None:
    assert web(f"GET {N}/{path}").body == unset
    assert web(f"PUT {N}/{path}", 100).status == 204
    assert web(f"GET {N}/{path}").json == 100
    policy = web(f"GET {N}/offloadPolicies").json
    assert 100 in policy.values()
    assert "managedLedgerOffloadDriver" not in policy
    removed = web(f"DELETE {N}/{path}")
    assert removed.status == (204 if not unset else 405)
    if not unset:
        assert web(f"GET {N}/{path}").body == b""
    bad = web(f"PUT {N}/{path}", -7)
    assert (bad.status, "-7" in bad.reason) == (412, True)
    assert web(f"PUT {N}/{path}", "many").status == 400


def test_a_policy_is_removed_by_a_path_of_its_own(web: Web) -> None:
    path = f"{N}/offloadPolicies"
    assert web(f"POST {path}", {"managedLedgerOffloadDriver": "filesystem"}).status == 204
    assert web(f"PUT {N}/offloadThreshold", 7).status == 204
    found = web(f"GET {path}").json
    assert found["managedLedgerOffloadDriver"] == "filesystem"
    assert found["managedLedgerOffloadThresholdInBytes"] == 7
    assert web(f"GET {N}").json["offload_policies"] == found
    assert web(f"DELETE {path}").status == 405
    assert web(f"DELETE {N}/removeOffloadPolicies").status == 204
    assert web(f"GET {path}").body == b""
    bad = web(f"POST {path}", {"managedLedgerOffloadDriver": "tape"})
    assert (bad.status, "'tape'" in bad.reason) == (412, True)


def test_a_topic_is_not_offloaded_and_says_why(web: Web) -> None:
    web.stage.topic("persistent://public/default/t")
    assert web("PUT t/offload", {"ledgerId": 1, "entryId": 1}).status == 204
    status = web("GET t/offload").json
    assert status["status"] == "ERROR"
    assert "no store to offload to" in status["lastError"]
    assert status["firstUnoffloadedMessage"]["ledgerId"] == -1
    assert web("GET none/offload").status == 404
