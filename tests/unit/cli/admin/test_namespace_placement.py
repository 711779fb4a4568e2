"""Where namespaces lie, by `pulsar-admin namespaces`."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.conftest import Line

N = "/admin/v2/namespaces/acme/shop"
B = "0x00000000_0xffffffff"
CLUSTERS = ["a", "b"]

ROWS: list[tuple[str, str, Any, Any]] = [
    (f"split-bundle acme/shop -b {B}", f"PUT {N}/{B}/split?unload=false", None, b""),
    ("split-bundle acme/shop -bt LARGEST -u -san range_equally_divide",
     f"PUT {N}/LARGEST/split?unload=true&splitAlgorithmName=range_equally_divide", None, b""),
    (f"split-bundle acme/shop -b {B} -sb 0x10,32", f"PUT {N}/{B}/split?unload=false", [16, 32], b""),
    (f"get-topic-positions acme/shop -b {B}", f"GET {N}/{B}/topicHashPositions", None, {}),
    (f"get-topic-positions acme/shop -b {B} -tl a,b",
     f"GET {N}/{B}/topicHashPositions?topics=a%2Cb", None, {}),
    ("set-clusters acme/shop -c a,b", f"POST {N}/replication", CLUSTERS, b""),
    ("get-allowed-clusters acme/shop", f"GET {N}/allowedClusters", None, ["a"]),
    ("set-allowed-clusters acme/shop -c a,b", f"POST {N}/allowedClusters", CLUSTERS, b""),
    ("update-migration-state acme/shop --migrated", f"POST {N}/migration", True, b""),
    ("get-anti-affinity-namespaces -p acme -c c -g g",
     "GET /admin/v2/namespaces/c/antiAffinity/g?tenant=acme", None, []),
    ("set-offload-deletion-lag acme/shop -l 2m", f"PUT {N}/offloadDeletionLagMs", 120_000, b""),
    ("get-offload-deletion-lag acme/shop", f"GET {N}/offloadDeletionLagMs", None, "120000"),
    ("clear-offload-deletion-lag acme/shop", f"DELETE {N}/offloadDeletionLagMs", None, b""),
    ("get-schema-autoupdate-strategy acme/shop",
     f"GET {N}/schemaAutoUpdateCompatibilityStrategy", None, '"Full"'),
    ("set-schema-autoupdate-strategy acme/shop -c full",
     f"PUT {N}/schemaAutoUpdateCompatibilityStrategy", "Full", b""),
    ("set-schema-autoupdate-strategy acme/shop -d",
     f"PUT {N}/schemaAutoUpdateCompatibilityStrategy", "AutoUpdateDisabled", b""),
    ("get-subscription-auth-mode acme/shop", f"GET {N}/subscriptionAuthMode", None, '"None"'),
    ("set-subscription-auth-mode acme/shop -m Prefix", f"POST {N}/subscriptionAuthMode", "Prefix",
     b""),
    ("set-resource-group acme/shop -rgn g", f"POST {N}/resourcegroup/g", None, b""),
    ("get-resource-group acme/shop", f"GET {N}/resourcegroup", None, b"g"),
    ("remove-resource-group acme/shop", f"DELETE {N}/resourcegroup", None, b""),
    ("remove-offload-policies acme/shop", f"DELETE {N}/removeOffloadPolicies", None, b""),
    ("delete-bookie-affinity-group acme/shop", f"DELETE {N}/persistence/bookieAffinity", None, b""),
    ("delete-anti-affinity-group acme/shop", f"DELETE {N}/antiAffinity", None, b""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "request_line", "body", "answer"), ROWS, ids=[row[0][:60] for row in ROWS]
)
def test_a_line_asks_this(
    line: Line, words: str, request_line: str, body: Any, answer: Any
) -> None:
    answer = answer.encode() if isinstance(answer, str) else answer
    line("namespaces", *words.split(), answers=(answer,))
    assert (line.code, line.err) == (0, "")
    assert line.asked == [request_line]
    if body is not None:
        assert line.body == body


def test_a_group_is_sent_as_a_bare_text(line: Line) -> None:
    line("namespaces", "set-anti-affinity-group", "acme/shop", "-g", "spread", answers=(b"",))
    assert line.transport.asked[0].body == b"spread"


def test_two_thresholds_are_one_command(line: Line) -> None:
    shown = line("namespaces", "get-offload-threshold", "acme/shop", answers=(b"100", b"-1"))
    assert shown == "offloadThresholdInBytes: 100\noffloadThresholdInSeconds: -1\n"
    line("namespaces", "set-offload-threshold", "acme/shop", "-s", "1K", answers=(b"", b""))
    assert line.asked == [
        f"PUT {N}/offloadThreshold",
        f"PUT {N}/offloadThresholdInSeconds",
    ]


@pytest.mark.parametrize(
    "words",
    [
        "split-bundle acme/shop",
        f"split-bundle acme/shop -b {B} -bt HOT",
        f"split-bundle acme/shop -b {B} -sb here",
        "set-schema-autoupdate-strategy acme/shop",
        "set-schema-autoupdate-strategy acme/shop -d -c Full",
    ],
)
def test_a_mistake_is_one_of_usage(line: Line, words: str) -> None:
    line("namespaces", *words.split())
    assert line.code == 2
    assert not line.asked
