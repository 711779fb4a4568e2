"""The position strip in a browser: exact at every zoom, live, by pointer and by keys; resets."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import milepost as pulsar
from console.conftest import Console
from console.scene import Scene, publish, scene

COUNT = 3000
TOPIC = "#/topic/public/default/random"
STATES = ("inflight", "ready", "delayed", "acked", "trimmed")

# The colour in the middle of each message's cell, top down: what a person sees of it.
SEEN = """(canvas) => {
  const style = getComputedStyle(document.documentElement);
  const probe = document.createElement('canvas').getContext('2d');
  const named = Object.fromEntries(%s.map((state) => {
    probe.fillStyle = style.getPropertyValue(`--${state}`).trim();
    probe.fillRect(0, 0, 1, 1);
    return [probe.getImageData(0, 0, 1, 1).data.slice(0, 3).join(), state];
  }));
  const pen = canvas.getContext('2d');
  const count = %d;
  return Array.from({ length: count }, (_, at) => {
    const x = Math.floor((at + 0.2) * canvas.width / count);
    return named[pen.getImageData(x, canvas.height - 6, 1, 1).data.slice(0, 3).join()] || '?';
  });
}"""


@pytest.fixture(scope="module")
def made() -> Iterator[Scene]:
    """Two groups with acks and holes as chance has it, a few of them delayed."""
    rolled = random.Random(7)
    with scene() as running:
        consumers = {
            name: running.client.subscribe(
                "random",
                name,
                consumer_type=pulsar.ConsumerType.Shared,
                consumer_name=f"{name}-1",
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=600,
            )
            for name in ("odd", "even")
        }
        running.consumers = consumers
        publish(running, "random", COUNT)
        for consumer in consumers.values():
            for _ in range(20):
                taken = [consumer.receive(timeout_millis=60_000) for _ in range(100)]
                consumer.acknowledge([one for one in taken if rolled.random() < 0.8])
        yield running


@pytest.fixture
def console(open_console: Any, made: Scene) -> Iterator[Console]:
    opened = open_console(made.url, viewport={"width": 1280, "height": 900})
    yield opened
    opened.check()


def counts(made: Scene, group: str, first: int = 0, end: int | None = None) -> Counter[str]:
    async def ask() -> Counter[str]:
        topic = made.broker.running.broker.topics["persistent://public/default/random"]
        cursor = topic.subscriptions[group].cursor
        strip = cursor.strip()
        last = cursor.end if end is None else end
        return Counter(strip.state_of(index) for index in range(first, last))

    return made.broker.run(ask())


def table_sums(page: Any, group: str) -> Counter[str]:
    rows = page.locator(f".as-table table:has(caption:text-is('Positions of {group}')) tbody tr")
    sums: Counter[str] = Counter()
    for row in rows.all():
        cells = row.locator("td").all_inner_texts()[1:]
        sums.update(
            {state: int(cell.replace(",", "")) for state, cell in zip(STATES, cells, strict=True)}
        )
    return +sums


def strip(page: Any, group: str) -> Any:
    found = page.locator(f"canvas[data-group={group}]")
    found.wait_for()
    return found


def wait_for_range(page: Any, first: int, end: int) -> None:
    page.locator(".range", has_text=f"index {first:,} to {end:,}:").wait_for()


@pytest.mark.parametrize(("first", "end"), [(0, COUNT), (500, 1700), (1000, 1100)])
def test_columns_are_what_the_broker_says_at_every_zoom(
    console: Console, made: Scene, first: int, end: int
) -> None:
    page = console.go(f"{TOPIC}?first={first}&end={end}")
    strip(page, "odd")
    page.get_by_text("As a table").click()
    for group in ("odd", "even"):
        expected = counts(made, group, first, end)
        console.until(lambda group=group, expected=expected: table_sums(page, group) == expected)
    if (first, end) == (0, COUNT):
        lines = made.broker.run(_progress(made))
        assert {line: counts(made, line) for line in lines} == lines


async def _progress(made: Scene) -> dict[str, Counter[str]]:
    from milepost.broker.monitoring.overview import lines_of

    topic = made.broker.running.broker.topics["persistent://public/default/random"]
    return {
        line.subscription: +Counter({state: getattr(line, state) for state in STATES[:4]})
        for line in lines_of(topic, 0)
    }


def test_single_messages_are_drawn_as_what_they_are(console: Console, made: Scene) -> None:
    async def states() -> list[str]:
        topic = made.broker.running.broker.topics["persistent://public/default/random"]
        found = topic.subscriptions["odd"].cursor.strip()
        return [found.state_of(index) for index in range(1000, 1080)]

    page = console.go(f"{TOPIC}?first=1000&end=1080")
    canvas = strip(page, "odd")
    expected = made.broker.run(states())
    assert {"acked", "inflight"} <= set(expected)
    script = SEEN % (list(STATES), 80)
    console.until(lambda: canvas.evaluate(script) == expected)


def test_hover_says_index_id_key_holder_and_deliveries(console: Console, made: Scene) -> None:
    page = console.go(f"{TOPIC}?first=1000&end=1080")
    canvas = strip(page, "odd")

    async def held() -> int:
        topic = made.broker.running.broker.topics["persistent://public/default/random"]
        found = topic.subscriptions["odd"].cursor.strip()
        return next(index for index in range(1000, 1080) if found.state_of(index) == "inflight")

    index = made.broker.run(held())
    box = canvas.bounding_box()
    x = (index - 1000 + 0.5) / 80 * box["width"]

    def is_told() -> bool:
        page.mouse.move(box["x"] + 2, box["y"] + 2)
        page.mouse.move(box["x"] + x, box["y"] + 30)
        return "with odd-1" in page.locator(".tip").inner_text()

    console.until(is_told)
    text = page.locator(".tip").inner_text()
    assert f"index {index:,}" in text
    assert "id " in text
    assert "key " in text
    assert "delivered once" in text
    assert "came " in text


def test_zoom_by_wheel_from_all_to_single_messages_and_back(console: Console) -> None:
    page = console.go(TOPIC)
    canvas = strip(page, "odd")
    wait_for_range(page, 0, COUNT)
    canvas.hover()
    for _ in range(40):
        page.mouse.wheel(0, -200)
    page.wait_for_function("/: [0-9] messages$/.test(document.querySelector('.range').textContent)")
    assert "first=" in page.url
    for _ in range(40):
        page.mouse.wheel(0, 200)
    wait_for_range(page, 0, COUNT)
    assert "first=" not in page.url


def test_keys_alone_reach_a_message(console: Console) -> None:
    page = console.go(TOPIC)
    canvas = strip(page, "odd")
    wait_for_range(page, 0, COUNT)
    canvas.focus()

    def is_heard() -> bool:
        page.keyboard.press("ArrowRight")
        return "index 0" in page.locator("#notice").inner_text()

    console.until(is_heard)
    for _ in range(3):
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowRight")

    def is_said() -> object:
        page.keyboard.press("ArrowRight")
        return re.match(r"index [0-9,]+, id [0-9:-]+, ", page.locator("#notice").inner_text())

    console.until(is_said)
    page.keyboard.press("0")
    wait_for_range(page, 0, COUNT)
    page.keyboard.press("+")
    page.locator(".range", has_text=": 1,500 messages").wait_for()
    page.keyboard.press("End")
    wait_for_range(page, 1500, COUNT)


def test_the_console_is_walked_through_with_tab_alone(console: Console) -> None:
    page = console.go("#/")
    page.get_by_role("link", name="odd").wait_for()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "odd":
            break
    page.keyboard.press("Enter")
    strip(page, "odd")


def test_it_moves_live(open_console: Any) -> None:
    with scene() as running:
        consumer = running.client.subscribe("live", "g")
        publish(running, "live", 10)
        console = open_console(running.url)
        page = console.go("#/topic/public/default/live")
        page.locator(".counts", has_text="10 inflight").wait_for()
        for _ in range(10):
            consumer.acknowledge(consumer.receive(timeout_millis=60_000))
        page.locator(".counts", has_text="10 acked").wait_for()
        publish(running, "live", 5, first=10)
        wait_for_range(page, 0, 15)
        script = SEEN % (list(STATES), 15)
        canvas = strip(page, "g")
        console.until(lambda: canvas.evaluate(script) == ["acked"] * 10 + ["inflight"] * 5)
        console.check()


# -- resets ------------------------------------------------------------------------------------------


@pytest.fixture
def ten(open_console: Any) -> Iterator[tuple[Scene, Console]]:
    """A topic of a hundred messages; the group has acked sixty of them."""
    with scene() as running:
        consumer = running.client.subscribe("reset", "the group")
        publish(running, "reset", 100)
        for _ in range(60):
            consumer.acknowledge(consumer.receive(timeout_millis=60_000))
        running.consumers["the group"] = consumer
        console = open_console(running.url)
        page = console.go("#/topic/public/default/reset")
        page.get_by_label("Allow changes").check()
        page.get_by_role("button", name="Reset…").click()
        yield running, console
        console.check()


def position(running: Scene) -> int:
    async def ask() -> int:
        topic = running.broker.running.broker.topics["persistent://public/default/reset"]
        return topic.subscriptions["the group"].position

    return running.broker.run(ask())


def test_a_reset_shows_what_it_does_and_wants_the_groups_name(ten: Any) -> None:
    running, console = ten
    page = console.page
    page.get_by_label("Where to").fill("20")
    page.locator(".preview", has_text="40 come again").wait_for()
    assert "0 are skipped" in page.locator(".outcome").inner_text()
    go = page.get_by_role("button", name="Reset", exact=True)
    assert go.is_disabled()
    page.get_by_label("Type the group to confirm").fill("the grou")
    assert go.is_disabled()
    assert position(running) == 60
    page.get_by_label("Type the group to confirm").fill("the group")
    go.click()
    page.get_by_text("Done: 40 messages come again").wait_for()
    assert position(running) == 20
    page.locator(".obeyed", has_text="beyed").wait_for()


def test_a_reset_by_dragging_the_mark(ten: Any) -> None:
    running, console = ten
    page = console.page
    canvas = strip(page, "'the group'")
    page.locator(".preview", has_text="0 come again").wait_for()
    box = canvas.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.6, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=5)
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=5)
    page.mouse.up()
    page.locator(".preview", has_text="20 are skipped").wait_for()
    assert page.get_by_label("Where to").input_value() == "80"
    page.get_by_label("Type the group to confirm").fill("the group")
    page.keyboard.press("Enter")
    page.get_by_text("20 skipped.").wait_for()
    assert position(running) == 80


def test_a_reset_to_what_is_not_there_says_so(ten: Any) -> None:
    running, console = ten
    page = console.page
    page.get_by_label("Where to").fill("4711")
    page.locator(".outcome [role=alert]").wait_for()
    assert "4711" in page.locator(".outcome").inner_text()
    assert page.get_by_role("button", name="Reset", exact=True).is_disabled()
    page.get_by_label("Target").select_option("earliest")
    page.locator(".preview", has_text="60 come again").wait_for()
    page.get_by_role("button", name="Close").click()
    page.locator(".reset-panel").wait_for(state="detached")
    assert position(running) == 60
    console.faults[:] = [one for one in console.faults if "404" not in one]
