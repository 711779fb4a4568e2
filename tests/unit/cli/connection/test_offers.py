"""What Tab offers: names of the broker within half a second, contexts, settings."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import BashComplete
from unit.cli.conftest import Line

from milepost.cli.connection import offers
from milepost.cli.connection.contexts import Contexts, save_contexts
from milepost.cli.main import milepost

TOPICS = [
    "persistent://public/default/orders-partition-0",
    "persistent://public/default/orders-partition-1",
    "persistent://public/default/other",
    "persistent://public/default/x",
]


def offered(line: Line, *words: str, answers: tuple[Any, ...] = ()) -> list[str]:
    """What is offered for the last word."""
    line.transport.answers = list(answers)
    line.transport.asked.clear()
    shell = BashComplete(milepost, {}, "milepost", "_MILEPOST_COMPLETE")
    return [one.value for one in shell.get_completions(list(words[:-1]), words[-1])]


V2 = "/admin/v2"
DEFAULT = f"{V2}/persistent/public/default"
GROUPS = {"subscriptions": [{"subscription": "billing"}] * 2}


@pytest.mark.parametrize(
    ("words", "answers", "found", "asked"),
    [
        (("topics", "stats", "o"), (TOPICS,), ["orders", "other"], DEFAULT),
        (("peek", "orders-partition-1"), (TOPICS,), ["orders-partition-1"], DEFAULT),
        (("peek", "orders-partition-"), (TOPICS,), ["orders-partition-0", "orders-partition-1"], DEFAULT),
        (("progress", "-t", ""), (TOPICS,), ["orders", "other", "x"], DEFAULT),
        (("peek", "a/b/c"), (["persistent://a/b/carts"],), ["a/b/carts"], f"{V2}/persistent/a/b"),
        (("peek", "a/s"), (["a/shop", "a/sold"],), ["a/shop/", "a/sold/"], f"{V2}/namespaces/a"),
        (("peek", "persistent://public/default/ot"), (TOPICS,), [TOPICS[2]], DEFAULT),
        (("peek", "persistent://pub"), (["public", "x"],), ["persistent://public/"], f"{V2}/tenants"),
        (("seek", "orders", "b"), (["billing", "audit"],), ["billing"], f"{DEFAULT}/orders/subscriptions"),
        (("progress", "-g", "b"), (GROUPS,), ["billing"], "/milepost/v1/progress"),
        (("topics", "list", "ac"), (["acme", "public"], ["acme/shop"]), ["acme/shop"], f"{V2}/tenants"),
        (("tenants", "get", "a"), (["acme", "public"],), ["acme"], f"{V2}/tenants"),
        (("brokers", "delete-dynamic-config", "-c", ""), (["m"],), ["m"], f"{V2}/brokers/configuration"),
    ],
)  # fmt: skip
def test_names_of_the_broker(
    line: Line, words: tuple[str, ...], answers: tuple[Any, ...], found: list[str], asked: str
) -> None:
    assert offered(line, *words, answers=answers) == found
    assert line.transport.asked[0].target == asked


@pytest.mark.parametrize("answer", [401, 404, 500, b"no JSON", {"not": "names"}])
def test_a_broker_that_refuses_offers_nothing(
    line: Line, answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(line, "topics", "stats", "o", answers=(answer,)) == []
    assert capsys.readouterr() == ("", "")


def test_a_broker_that_does_not_answer_costs_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        shell = BashComplete(milepost, {}, "milepost", "_MILEPOST_COMPLETE")
        began = time.monotonic()
        assert shell.get_completions(["--admin-url", url, "topics", "stats"], "o") == []
        took_s = time.monotonic() - began
    # A busy machine may be late; without the limit it would be a minute.
    assert took_s < 10 * offers.LIMIT_S


def test_all_questions_together_have_half_a_second(line: Line) -> None:
    """One that is answered in time again and again could go on for long."""
    is_over = threading.Event()
    context = click.Context(milepost)

    def slow(admin: Any, ctx: click.Context, incomplete: str) -> list[str]:
        is_over.wait(60)
        return ["late"]

    began = time.monotonic()
    try:
        found = offers.Offered(slow).shell_complete(context, milepost.params[0], "")
    finally:
        is_over.set()
    assert found == []
    assert time.monotonic() - began < 10 * offers.LIMIT_S


def test_contexts_are_in_a_file(line: Line, at_home: Path) -> None:
    save_contexts(Contexts("staging", {"staging": {"admin_url": "http://a:1"}, "prod": {}}))
    assert offered(line, "context", "use", "s") == ["staging"]
    assert offered(line, "--context", "") == ["staging", "prod"]
    assert offered(line, "topics", "stats", "--context", "p") == ["prod"]
    (at_home / "contexts.json").write_text("nonsense")
    assert offered(line, "context", "use", "s") == []


def test_settings_with_their_values(line: Line) -> None:
    assert offered(line, "serve", "--set", "http_po") == ["http_port="]
    assert offered(line, "serve", "--set", "broker_entry_metadata=") == [
        "broker_entry_metadata=true",
        "broker_entry_metadata=false",
    ]
    assert offered(line, "serve", "--set", "nonsense=") == []


def test_the_help_says_what_it_said(line: Line) -> None:
    assert "-g, --group NAME" in line("progress", "--help")
