"""Log records: one line each, for people and for machines."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from milepost.cli.server import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where records go; the loggers are put back afterwards."""
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    before = (root.handlers[:], root.level, uvicorn.level)
    yield io.StringIO()
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    uvicorn.setLevel(before[2])


def test_text_is_one_line_a_record(stream: io.StringIO) -> None:
    logs.set_up("text", "info", stream)
    logger = logging.getLogger("milepost.broker.connection.server")
    logger.info("peer says %s", "a\nb", extra={"topic": "t", "index": 5})
    logger.debug("not this")
    (line,) = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO  broker\.connection\.server: "
        r"peer says a\\nb topic=t index=5",
        line,
    )


def test_a_value_with_blanks_in_it_adds_no_fields(stream: io.StringIO) -> None:
    logs.set_up("text", "info", stream)
    extra = {"consumer": 'x" level=ERROR', "none": "", "topic": "persistent://a/b/é"}
    logging.getLogger("x").info("came", extra=extra)
    assert stream.getvalue().endswith(
        'came consumer="x\\" level=ERROR" none="" topic=persistent://a/b/é\n'
    )


def test_json_is_one_object_a_record(stream: io.StringIO) -> None:
    logs.set_up("json", "debug", stream)
    try:
        raise KeyError("x")
    except KeyError:
        logging.getLogger("other").exception("failed", extra={"index": 5})
    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("time").endswith("Z")
    assert "KeyError: 'x'" in event.pop("traceback")
    assert event == {"level": "error", "logger": "other", "event": "failed", "index": 5}


def test_the_web_server_is_quiet(stream: io.StringIO) -> None:
    logs.set_up("text", "info", stream)
    logging.getLogger("uvicorn.error").info("Started server process")
    assert stream.getvalue() == ""
    logging.getLogger("uvicorn.error").warning("something is wrong")
    assert "something is wrong" in stream.getvalue()
