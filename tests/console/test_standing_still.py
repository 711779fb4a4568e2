"""Numbers that stand still because the broker is away do not look like a broker at rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stage.ports import free_port

from console.scene import Scene, publish, scene

TOPIC = "#/topic/public/default/t"


def test_a_broker_that_is_away_is_said_and_its_return_is_seen(
    open_console: Any, tmp_path: Path
) -> None:
    settings = {"data": tmp_path, "port": free_port(), "http_port": free_port()}
    with scene(**settings) as made:
        made.admin.create_topic("t")
        console = open_console(made.url)
        page = console.go(TOPIC)
        page.get_by_text("No group reads this topic").wait_for()
        # The first group is seen without a word from the reader.
        made.admin.create_subscription("t", "group")
        publish(made, "t", 20)
        page.locator("canvas[data-group=group]").wait_for()
    stale = page.locator("#stale")
    stale.wait_for(state="visible")
    assert "the broker does not answer" in stale.inner_text()
    with scene(**settings) as made:
        stale.wait_for(state="hidden")
        publish(made, "t", 21)
        page.locator(".counts", has_text="41 ready").wait_for()


def test_json_is_laid_out_as_it_was_sent(open_console: Any) -> None:
    sent = b'{"big":1152921504606846977,"a":[],"s":"x:{},\\"y","l":[1,2.50,null],"d":1,"d":2}'
    with scene() as made:
        made.client.create_producer("t").send(sent)
        shown = _opened(open_console, made)
    assert shown.replace("\n", "").replace(" ", "").encode() == sent
    assert '\n  "l": [\n    1,\n    2.50,\n    null\n  ],\n' in shown


def _opened(open_console: Any, made: Scene) -> str:
    page = open_console(made.url).go(f"{TOPIC}?tab=messages")
    message = page.locator("details.message").first
    message.locator("summary").click()
    return str(message.locator("pre").inner_text())
