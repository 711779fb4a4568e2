"""Every view of the console, as a person sees it in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from console.conftest import Console
from console.scene import HOSTILE, HOSTILE_GROUP, HOSTILE_TEXT, ORDERS, Scene, publish, scene
from milepost.schema import AvroSchema

TOPIC = "#/topic/public/default/orders"


def row_of(page: Any, text: str) -> Any:
    return page.locator("tbody tr", has=page.get_by_role("link", name=text, exact=True)).first


def test_the_root_leads_to_the_overview(console: Console, orders: Scene) -> None:
    page = console.page
    page.goto(orders.broker.http_url)
    page.get_by_role("heading", name="Overview").wait_for()
    assert page.url == orders.url


def test_the_overview_shows_trouble_first_with_reasons(console: Console, orders: Scene) -> None:
    page = console.go()
    row = row_of(page, "archive")
    row.wait_for()
    assert "no consumer" in row.inner_text()
    assert "5000 ready, and no consumer is connected" in row.inner_text()
    verdicts = page.locator("tbody tr .badge").all_inner_texts()
    assert verdicts[-1] == "caught up"
    assert "in trouble" in page.locator(".verdicts").inner_text()
    figures = page.locator(".figures").inner_text()
    backlog = orders.broker.run(_overview(orders))["backlog"]
    assert f"{backlog:,}" in figures
    row.get_by_role("link", name="archive").click()
    page.locator("canvas[data-group=archive]").wait_for()


async def _overview(orders: Scene) -> dict[str, int]:
    topics = orders.broker.running.broker.topics.values()
    subscriptions = [one for topic in topics for one in topic.subscriptions.values()]
    return {"backlog": sum(one.cursor.backlog for one in subscriptions)}


def test_topics_are_found_and_paged(open_console: Any) -> None:
    with scene() as made:
        for number in range(60):
            made.client.create_producer(f"t-{number:02}").close()
        console = open_console(made.url)
        page = console.go("#/topics")
        page.get_by_role("link", name="t-00", exact=True).wait_for()
        assert page.locator("tbody tr").count() == 50
        page.get_by_role("link", name="further topics").click()
        page.get_by_role("link", name="t-59", exact=True).wait_for()
        assert page.locator("tbody tr").count() == 10
        page.get_by_label("Find a topic").fill("t-1")
        page.keyboard.press("Enter")
        page.get_by_text("10 topics.").wait_for()
        assert page.locator("tbody tr").count() == 10
        page.get_by_role("link", name="t-17").click()
        page.get_by_role("heading", name="t-17").wait_for()
        console.check()


def test_the_groups_consumers_and_producers_of_a_topic(console: Console) -> None:
    page = console.go(f"{TOPIC}?tab=clients")
    row = row_of(page, "billing")
    row.wait_for()
    assert "Shared" in row.inner_text()
    assert page.get_by_role("cell", name="billing-1", exact=True).is_visible()
    page.get_by_role("tab", name="Schema and policies").click()
    page.get_by_role("cell", name="Time to live", exact=False).or_(
        page.get_by_role("cell", name="message ttl")
    ).first.wait_for()
    assert page.get_by_text("No schema is registered").is_visible()


def test_rates_are_drawn_over_time(console: Console) -> None:
    page = console.go(TOPIC)
    page.get_by_role("img", name="Messages in a second while this page was open").wait_for()


def test_each_partition_of_a_topic_has_its_strip(open_console: Any) -> None:
    with scene() as made:
        name = "persistent://public/default/parts"
        made.broker.run(_partition(made, name, 3))
        made.client.subscribe(name, "readers").close()
        publish(made, name, 90)
        console = open_console(made.url)
        page = console.go("#/topics?search=parts")
        row = row_of(page, "parts")
        row.wait_for()
        assert "3 partitions" in row.inner_text()
        row.get_by_role("link").click()
        page.get_by_label("Partition", exact=True).select_option("2")
        page.locator(".counts", has_text="ready").wait_for()
        assert "partition=2" in page.url
        page.get_by_label("Allow changes").check()
        page.get_by_role("button", name="Reset…").click()
        page.get_by_label("Target").select_option("latest")
        page.locator(".preview", has_text="are skipped").wait_for()
        page.get_by_label("all 3 partitions").check()
        page.locator(".preview", has_text="90 are skipped").wait_for()
        console.go("#/topic/public/default/parts-partition-1?group=readers")
        page.get_by_role("heading", name="parts", exact=True).wait_for()
        assert "partition=1" in page.url
        console.check()


async def _partition(made: Scene, name: str, count: int) -> None:
    from milepost.positions.names import TopicName

    broker = made.broker.running.broker
    await broker.create_partitioned_topic(TopicName.parse(name), count)


def test_policies_say_where_they_come_from_and_schemas_are_shown(open_console: Any) -> None:
    with scene() as made:
        import milepost as pulsar

        schema = pulsar.schema.JsonSchema(_Order)
        made.client.create_producer("typed", schema=schema).close()
        made.broker.run(_set_ttl(made))
        console = open_console(made.url)
        page = console.go("#/topic/public/default/typed?tab=about")
        row = page.locator("tbody tr", has_text="message ttl").first
        row.wait_for()
        assert "namespace" in row.inner_text()
        page.get_by_text("Version 0").click()
        assert '"name": "city"' in page.locator("details.schema pre").inner_text()
        console.check()


async def _set_ttl(made: Scene) -> None:
    from milepost.broker.policies.policy import Level
    from milepost.broker.policies.table import POLICIES

    book = made.broker.running.broker.policies.book
    await book.set(Level.NAMESPACE, "public/default", POLICIES["message_ttl"], 3600)


def _order_record() -> Any:
    import milepost as pulsar

    class Order(pulsar.schema.Record):  # type: ignore[name-defined,misc]
        city = pulsar.schema.String()

    return Order


_Order = _order_record()


# -- messages ----------------------------------------------------------------------------------------


def test_the_newest_messages_come_first_and_open(console: Console) -> None:
    page = console.go(f"{TOPIC}?tab=messages")
    first = page.locator("details.message").first
    first.wait_for()
    assert first.get_attribute("data-index") == "4999"
    first.locator("summary").click()
    first.locator("pre").wait_for()  # it is made a moment after the click
    text = first.inner_text()
    assert '"order": 4999' in text
    assert re.search(r"Id\s+\d+:\d+", text)
    assert "Property source" in text
    first.get_by_label("Shown as").select_option("hex")
    first.locator("pre", has_text="000000  7b 22 6f 72 64 65 72 22").wait_for()


def test_messages_from_an_index_with_a_filter_by_a_link(console: Console) -> None:
    page = console.go(f"{TOPIC}?tab=messages&from=index&at=100&key=Bergen&property=source%3Dshop")
    first = page.locator("details.message").first
    first.wait_for()
    shown = [int(one.get_attribute("data-index")) for one in page.locator("details.message").all()]
    assert shown[:3] == [105, 113, 121]
    page.get_by_label("Content has").fill("no such thing")
    page.get_by_role("button", name="Look").click()
    page.get_by_text("No message fits").wait_for()
    assert "content=no+such+thing" in page.url


def test_messages_by_id_and_time(console: Console, orders: Scene) -> None:
    found = orders.client.message_id_by_index(ORDERS, 7)
    page = console.go(f"{TOPIC}?tab=messages&from=id&at={found.ledger_id}:{found.entry_id}")
    page.locator("details.message").first.wait_for()
    page.get_by_label("Begin at").select_option("time")
    page.get_by_label("Where to begin").fill("2001-01-01T00:00:00")
    page.get_by_role("button", name="Look").click()
    page.locator("details.message[data-index='0']").wait_for()
    page.get_by_role("button", name="Go on at index 50").click()
    page.locator("details.message[data-index='99']").wait_for()


def test_a_long_payload_is_cut_until_the_rest_is_asked_for(open_console: Any) -> None:
    with scene() as made:
        producer = made.client.create_producer("long", chunking_enabled=True)
        producer.send(b"begin " + b"x" * 20_000 + b" end")
        console = open_console(made.url)
        page = console.go("#/topic/public/default/long?tab=messages")
        message = page.locator("details.message").first
        message.locator("summary").click()
        assert not message.locator("pre").inner_text().endswith("end")
        message.get_by_role("button", name="Show all 20.0 kB").click()
        console.until(lambda: message.locator("pre").inner_text().endswith(" end"))
        console.check()


def test_hostile_names_keys_and_payloads_are_text(console: Console) -> None:
    topic = f"#/topic/public/default/{quote(HOSTILE, safe='')}"
    page = console.go()
    page.get_by_role("link", name=HOSTILE_GROUP, exact=True).wait_for()
    page = console.go("#/topics")
    page.get_by_role("link", name=HOSTILE, exact=True).click()
    page.get_by_role("heading", name=HOSTILE, exact=True).wait_for()
    strip = page.locator("canvas.strip").first
    strip.hover()
    page.locator(".tip").get_by_text("inflight").first.wait_for()
    console.go(f"{topic}?tab=messages")
    page.locator("details.message").first.wait_for()
    for message in page.locator("details.message").all():
        message.locator("summary").click()
        message.locator("pre").wait_for()
    assert page.locator("pre", has_text=HOSTILE_TEXT).count() == 1
    console.go(f"{topic}?tab=clients")
    page.get_by_role("cell", name=HOSTILE_TEXT, exact=True).wait_for()
    assert page.locator("main script, main img").count() == 0


# -- who is looking ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured() -> Iterator[Scene]:
    from stage.security import SECURED, token

    import milepost as pulsar
    from milepost.testing import broker

    with (
        broker(http=True, **SECURED) as running,
        pulsar.Client(
            running.url, authentication=pulsar.AuthenticationToken(token("root"))
        ) as client,
    ):
        client.subscribe("orders", "billing").close()
        made = Scene(running, client, None, {})  # type: ignore[arg-type]
        publish(made, "orders", 10)
        running.run(_let_read(running))
        yield made


async def _let_read(running: Any) -> None:
    from milepost.broker.auth.operations import Action
    from milepost.positions.names import NamespaceName

    broker = running.running.broker
    await broker.access_control.grants.edit(
        NamespaceName.parse("public/default"),
        lambda grants: grants.with_namespace_role("reader", {Action.CONSUME}).with_namespace_role(
            "writer", {Action.PRODUCE}
        ),
    )


def sign_in(page: Any, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in with the token").click()


def test_wrong_credentials_are_refused_and_right_ones_stay_in_the_tab(
    open_console: Any, secured: Scene
) -> None:
    from stage.security import token

    console = open_console(secured.url)
    page = console.go(TOPIC)
    sign_in(page, "no.such.token")
    page.get_by_role("alert").wait_for()
    assert "Refused" in page.get_by_role("alert").inner_text()
    page.get_by_label("User").fill("ann")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in with the password").click()
    page.get_by_role("alert").wait_for()
    secret = token("root")
    sign_in(page, secret)
    page.locator("canvas[data-group=billing]").wait_for()
    assert page.locator(".role").inner_text() == "root"
    assert secret not in page.url
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    assert page.context.storage_state()["origins"] == []
    page.reload()
    page.locator("canvas[data-group=billing]").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    assert page.evaluate("sessionStorage.getItem('milepost.credentials')") is None
    # Chromium notes each refusal that a fetch gets; nothing else may be there.
    assert [one for one in console.faults if "401" not in one] == []


def test_what_a_role_may_not_do_is_not_offered(open_console: Any, secured: Scene) -> None:
    from stage.security import token

    for role, may_reset in (("reader", True), ("writer", False)):
        console = open_console(secured.url)
        page = console.go(TOPIC)
        sign_in(page, token(role))
        page.locator("canvas[data-group=billing]").wait_for()
        assert page.get_by_role("button", name="Reset…").count() == 0  # read only
        page.get_by_label("Allow changes").check()
        page.locator("canvas[data-group=billing]").wait_for()
        page.locator(".who-where .name").wait_for()
        if may_reset:
            page.get_by_role("button", name="Reset…").wait_for()
        assert page.get_by_role("button", name="Reset…").count() == int(may_reset)
        console.go("#/")
        page.get_by_role("link", name="billing").wait_for()
        assert page.get_by_label("Namespace").locator("option").all_inner_texts() == [
            "public/default"
        ]
        console.go(f"{TOPIC}?tab=about")
        page.get_by_text("Your role may not see policies.").wait_for()
        console.go(f"{TOPIC}?tab=messages")
        if may_reset:
            page.locator("details.message").first.wait_for()
        else:
            page.get_by_text("needs the right to consume").wait_for()


# -- for everyone ------------------------------------------------------------------------------------


ROUTES = (
    "#/",
    "#/topics",
    TOPIC,
    f"{TOPIC}?tab=messages",
    f"{TOPIC}?tab=clients",
    f"{TOPIC}?tab=about",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_console: Any, orders: Scene, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    console = open_console(orders.url, color_scheme=scheme, bypass_csp=True)
    for route in ROUTES:
        page = console.go(route)
        page.locator("main table, canvas.strip, details.message").first.wait_for()
        found = axe.run(page).response["violations"]
        serious = [
            (one["id"], [node["target"] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], route


@pytest.mark.parametrize("width", [360, 768, 3840])
def test_nothing_is_cut_off_at_any_width(open_console: Any, orders: Scene, width: int) -> None:
    console = open_console(orders.url, viewport={"width": width, "height": 800})
    for route in ROUTES:
        page = console.go(route)
        page.locator("main table, canvas.strip, details.message").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, route
    console.check()


def test_times_are_in_the_readers_zone(open_console: Any, orders: Scene) -> None:
    for zone, name in (("Asia/Tokyo", "GMT+9"), ("UTC", "UTC")):
        console = open_console(orders.url, timezone_id=zone)
        page = console.go(f"{TOPIC}?tab=messages")
        moment = page.locator("details.message time").first
        moment.wait_for()
        assert moment.inner_text().endswith(name)
        assert moment.get_attribute("datetime").endswith("Z")


def test_everything_works_below_a_prefix(open_console: Any, orders: Scene) -> None:
    """A proxy that serves the broker below a path of its own."""
    console = open_console("http://localhost:1/deep/down/console/")
    target = orders.broker.http_url

    def forward(route: Any) -> None:
        path = route.request.url.removeprefix("http://localhost:1")
        assert path.startswith("/deep/down/"), path
        answer = route.fetch(url=target + path.removeprefix("/deep/down"))
        route.fulfill(response=answer)

    console.page.route("http://localhost:1/**", forward)
    page = console.go(TOPIC)
    page.locator("canvas[data-group=billing]").wait_for()
    page.get_by_role("link", name="Overview").click()
    row_of(page, "archive").wait_for()
    console.check()


def test_avro_is_shown_by_the_schema_of_the_topic(console: Console, orders: Scene) -> None:
    fields = [{"name": "city", "type": ["null", "string"], "default": None}]
    definition = json.dumps({"type": "record", "name": "R", "fields": fields})
    orders.admin.create_schema("avro", {"type": "AVRO", "schema": definition, "properties": {}})
    producer = orders.client.create_producer(
        "avro", schema=AvroSchema(None, json.loads(definition))
    )
    producer.send({"city": "<b>Bergen</b>"})
    producer.close()
    page = console.go("#/topic/public/default/avro?tab=messages")
    message = page.locator("details.message").first
    message.locator("summary").click()
    assert '"city": "<b>Bergen</b>"' in message.locator("pre.payload").inner_text()
    assert message.get_by_label("Shown as").input_value() == "AVRO"
    console.check()
