"""A broker's refusal: one line with the object, the reason and the next step, and its exit code."""

from __future__ import annotations

import json

import pytest
from unit.cli.conftest import Line

from milepost.admin.errors import error_of
from milepost.cli.exits import Exit
from milepost.cli.main import run

TOPIC = "persistent://acme/shop/orders"


@pytest.mark.parametrize(
    ("args", "status", "code", "end"),
    [
        (("topics", "stats", TOPIC), 401, Exit.AUTH, "say who you are with --token or a context"),
        (("topics", "stats", TOPIC, "--token", "x"), 401, Exit.AUTH, "get a new token"),
        (("topics", "stats", TOPIC), 403, Exit.AUTH, "ask an administrator for the right"),
        (("topics", "stats", TOPIC), 404, Exit.NOT_FOUND,
         "`milepost topics list acme/shop` shows what there is"),
        (
            ("topics", "get-message-id-by-index", "--index", "-1", TOPIC),
            404,
            Exit.NOT_FOUND,
            f"`milepost topics last-message-id {TOPIC}` shows the end",
        ),
        (("namespaces", "policies", "acme/shop"), 404, Exit.NOT_FOUND,
         "`milepost namespaces list acme` shows what there is"),
        (("tenants", "get", "acme"), 404, Exit.NOT_FOUND, "`milepost tenants list` shows what there is"),
        (("topics", "delete", TOPIC), 412, Exit.CONFLICT, "close what uses it, or say --force"),
        (("topics", "create", TOPIC), 409, Exit.CONFLICT, "played"),
        (("namespaces", "delete", "acme/shop"), 409, Exit.CONFLICT,
         "delete what `milepost namespaces topics acme/shop` shows first"),
        (("tenants", "delete", "acme"), 409, Exit.CONFLICT,
         "delete what `milepost namespaces list acme` shows first"),
        (("topics", "peek-messages", TOPIC, "-s", "b"), 405, Exit.USAGE, "played"),
        (("topics", "unload", TOPIC), 400, Exit.USAGE, "played"),
        (("topics", "unload", TOPIC), 500, Exit.FAILED,
         "the log of the broker at http://played:8080 has more"),
    ],
)  # fmt: skip
def test_a_refusal(line: Line, args: tuple[str, ...], status: int, code: Exit, end: str) -> None:
    line(*args, answers=(status, status))
    assert line.code == code
    assert line.out == ""
    assert line.err.count("\n") == 1
    assert line.err.startswith(f"milepost: {args[0]} {args[1]} ")
    assert line.err.rstrip("\n").endswith(end)
    assert "played" in line.err


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        (b"Subscription not found", f"`milepost topics subscriptions {TOPIC}` shows what there is"),
        (b"Topic not found", "`milepost topics list acme/shop` shows what there is"),
    ],
)
def test_what_is_missing_is_looked_for_where_it_would_be(
    line: Line, reason: bytes, step: str
) -> None:
    line("topics", "unsubscribe", TOPIC, "-s", "b", answers=(error_of("GET /x", "u", 404, reason),))
    assert line.err.endswith(f"{step}\n")


@pytest.mark.parametrize(
    ("args", "step"),
    [
        (
            ("topics", "stats", TOPIC),
            f"`milepost topics partitioned-stats {TOPIC}` is for the whole topic",
        ),
        (
            ("topics", "delete", TOPIC),
            f"`milepost topics delete-partitioned-topic {TOPIC}` is for the whole topic",
        ),
        (("topics", "last-message-id", TOPIC), f"name one of them, as {TOPIC}-partition-0"),
    ],
)
def test_what_a_partitioned_topic_has_not_is_asked_of_its_partitions(
    line: Line, args: tuple[str, ...], step: str
) -> None:
    refusal = error_of("GET /x", "u", 404, b'{"reason": "orders is partitioned"}')
    line(*args, answers=(refusal,))
    assert line.err.endswith(f"orders is partitioned; {step}\n")


def test_a_deletion_by_the_wrong_command_is_no_matter_of_force(line: Line) -> None:
    refusal = error_of(
        "DELETE /x", "u", 409, b'{"reason": "orders is not partitioned; delete it as"}'
    )
    line("topics", "delete-partitioned-topic", TOPIC, answers=(refusal,))
    assert line.err.endswith("orders is not partitioned; delete it as\n")


def test_a_reason_that_names_a_partition_is_enough(line: Line) -> None:
    reason = (
        f"{TOPIC} is partitioned, and this is told of single partitions, as {TOPIC}-partition-0"
    )
    refusal = error_of("GET /x", "u", 404, json.dumps({"reason": reason}).encode())
    line("topics", "last-message-id", TOPIC, answers=(refusal,))
    assert line.err.endswith(f": {reason}\n")


def test_a_call_that_the_broker_does_not_have(line: Line) -> None:
    line("tenants", "list", answers=(error_of("GET /x", "u", 404, b"there is nothing at /x"),))
    assert line.err == (
        "milepost: tenants list: there is nothing at /x; this broker does not have this call\n"
    )


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--admin-url", "http://127.0.0.1:1", "tenants", "list"]) == Exit.CONNECT
    assert capsys.readouterr().err == (
        "milepost: tenants list: cannot reach http://127.0.0.1:1: connection refused: nothing "
        "listens there; start a broker with `milepost serve`, or name another with --admin-url or "
        "--context\n"
    )


def test_pulsar_admin_fails_with_1(line: Line) -> None:
    line("admin", "topics", "stats", TOPIC, answers=(404,))
    assert line.code == 1
    line("admin", "topics", "stats")
    assert line.code == 1
    assert line("admin", "tenants", "list", answers=(["a"],)) == "a\n"
    assert line.code == 0
    line("topics", "stats", TOPIC, answers=(404,))
    assert line.code == 5


def test_what_only_milepost_has_is_said_so_of_apache_pulsar(line: Line) -> None:
    line("progress", answers=(error_of("GET /milepost/v1/progress", "u", 404, b""),))
    assert line.code == Exit.NOT_FOUND
    assert line.err.endswith("; Apache Pulsar does not have this call\n")
