"""Policies about machinery that is not here: taken as upstream takes them without it, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.broker.policies.accepted_only import DRIVERS, OFFLOAD
from milepost.broker.policies.table import POLICIES
from milepost.errors import InvalidPolicy, PolicyOutOfRange


def test_an_offload_policy_has_upstreams_defaults_and_nothing_that_was_not_said() -> None:
    read = OFFLOAD.read({"managedLedgerOffloadDriver": "filesystem", "unknown": 1}, "offload")
    assert read == {
        "offloadersDirectory": "./offloaders",
        "managedLedgerOffloadDriver": "filesystem",
        "managedLedgerOffloadMaxThreads": 2,
        "managedLedgerOffloadReadThreads": 2,
        "managedLedgerOffloadPrefetchRounds": 1,
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 67108864,
        "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1048576,
        "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
        "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 134217728,
        "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1048576,
    }
    assert OFFLOAD.read(read, "offload") == read


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_driver_but_the_file_systems_needs_a_bucket(driver: str) -> None:
    given: dict[str, Any] = {"managedLedgerOffloadDriver": driver}
    if driver != "filesystem":
        with pytest.raises(PolicyOutOfRange, match="needs a bucket"):
            OFFLOAD.read(given, "offload")
        given["s3ManagedLedgerOffloadBucket"] = "b"
    assert OFFLOAD.read(given, "offload")["managedLedgerOffloadDriver"] == driver


def test_what_is_refused() -> None:
    with pytest.raises(PolicyOutOfRange, match=r"expected one of S3, .*not 'tape'"):
        OFFLOAD.read({"managedLedgerOffloadDriver": "tape"}, "offload")
    with pytest.raises(InvalidPolicy, match="MaxThreads"):
        OFFLOAD.read({"managedLedgerOffloadMaxThreads": "x"}, "offload")
    with pytest.raises(InvalidPolicy, match="an object of"):
        OFFLOAD.read({}, "offload")
    with pytest.raises(InvalidPolicy):
        POLICIES["anti_affinity"].shape.read("a\nb", "antiAffinity")
    with pytest.raises(InvalidPolicy):
        POLICIES["metric_property_keys"].shape.read(["a"] * 101, "keys")
    assert POLICIES["metric_property_keys"].shape.read(["b", "a", "b"], "keys") == ["a", "b"]
