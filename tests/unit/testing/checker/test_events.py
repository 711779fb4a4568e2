"""Lines that are no events: each is refused with its number and what is wrong with it."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.testing.checker.events import (
    INVOCATIONS,
    OBSERVATIONS,
    RESULTS,
    BadHistory,
    id_text,
    place_of,
    read_events,
    read_header,
)

PUBLISH = {"is": "invoke", "op": "publish", "n": 1, "topic": "t", "message": "a", "by": "p"}
RECEIVE = {"op": "receive", "topic": "t", "message": "a"}


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON"),
        ("{}\n", "has to say"),
        (line(history=2), "not 2"),
        (line(history=True), "not True"),
        (line(history=1, window_s="soon"), "seconds are wanted"),
        (line(history=1, windows=1), "'windows' has no meaning"),
        (line(history=1, window_s=-0.1), "window_s is -0.1: seconds that are not below 0"),
        (line(history="1" * 9999), "not '1111"),
    ],
)
def test_the_first_line_says_which_version(text: str, problem: str) -> None:
    with pytest.raises(BadHistory, match=problem) as refused:
        read_header(text)
    assert refused.value.line == 1
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"op": "rec', r"no JSON.*\(the line is cut\)"),
        ("[1, 2]\n", "is no object"),
        ('{"op": "start"} {"op": "kill"}\n', "behind the event stands"),
        (' {"op": "start"}\n', "no JSON"),
        ("\n", "no JSON"),
        ("[" * 100_000 + "\n", "no JSON"),
        (line(op="receive", topic="t" * 2_000_000), "characters, at most"),
        (line(**{**RECEIVE, "op": "nonsense"}), "op 'nonsense' is none of"),
        (line(**{**RECEIVE, "op": ["receive"]}), "is none of"),
        (line(**{**RECEIVE, "is": "maybe"}), "an event is invoke, ok, fail or unknown"),
        (line(**{**RECEIVE, "recipt": True}), "the field 'recipt' has no meaning there"),
        (line(op="receive", topic="t"), "receive without message"),
        (line(**{**RECEIVE, "topic": ""}), "topic is ''"),
        (line(**{**RECEIVE, "topic": 7}), "topic is 7"),
        (line(**{**RECEIVE, "index": 2**63}), "index is 9223372036854775808: a whole number"),
        (line(**{**RECEIVE, "index": 2**63 - 1}), "from 0 to 9223372036854775806 is wanted"),
        (line(**{**RECEIVE, "index": -1}), "index is -1"),
        (line(**{**RECEIVE, "index": True}), "index is True"),
        (line(**{**RECEIVE, "index": 1.0}), "index is 1.0"),
        (line(**{**RECEIVE, "index": 10**400}), "index is a huge number"),
        ('{"op": "receive", "index": ' + "9" * 5000 + "}\n", "no JSON"),
        ('{"op": "kill", "t": 1e999}\n', "seconds are wanted"),
        ('{"op": "kill", "t": NaN}\n', "NaN is no number"),
        (line(**{**RECEIVE, "id": [1, 2]}), "an id is wanted"),
        (line(**{**RECEIVE, "id": [1, 2, -2]}), "an id is wanted"),
        (line(**{**RECEIVE, "id": [2**63, 0, -1]}), "an id is wanted"),
        (line(op="join", topic="t", sub="s", by="c", mode="fast"), "strict, connection or queue"),
        (line(op="ack", topic="t", sub="s", by="c", messages=["a"]), "ack without t"),
        (line(op="ack", topic="t", sub="s", by="c", t=1, ids=[]), "a list of ids is wanted"),
        (line(**{key: value for key, value in PUBLISH.items() if key != "n"}), "publish without n"),
        (line(**{"is": "ok", "n": 7}), "no operation with n 7 is open"),
        (line(**{"is": "ok", "n": [7]}), "no operation with n"),
        (line(**{"is": "ok", "n": 0, "op": "seek"}), "n 0 is of publish, not of 'seek'"),
        (line(**{"is": "ok", "n": 0, "first": 3}), "an id is wanted"),
        (line(**{"is": "fail", "n": 0, "id": None}), "the field 'id' has no meaning there"),
        (line(**{"is": "unknown", "n": 0, "index": 3}), "the field 'index' has no meaning there"),
        (
            line(op="ack", topic="t", sub="s", by="c", ids=[[1, 0, -1]], t=1, slack=-1),
            "slack is -1",
        ),
        (line(**{**PUBLISH, "n": 0}), "n 0 is open since line 2"),
    ],
)
def test_a_line_that_is_no_event_is_refused_by_its_number(text: str, problem: str) -> None:
    with pytest.raises(BadHistory, match=problem) as refused:
        list(read_events([line(**{**PUBLISH, "n": 0}), text]))
    assert refused.value.line == 3
    assert len(str(refused.value)) < 500


def test_an_outcome_knows_what_was_asked() -> None:
    lines = [line(**PUBLISH), line(**{"is": "ok", "n": 1, "id": [1, 2, 3]})]
    (_, asked), (number, answered) = read_events(lines)
    assert number == 3
    assert answered["op"] == "publish"
    assert answered["invoked"] is asked
    assert answered["id"] == place_of([1, 2, 3])


ids = st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2).flatmap(
    lambda two: st.integers(-1, 2**31 - 1).map(lambda batch: [*two, batch])
)


@given(ids, ids)
def test_places_sort_as_ids_do(one: list[int], other: list[int]) -> None:
    assert (one < other) == (place_of(one) < place_of(other))
    assert id_text(place_of(one)) == ":".join(map(str, one))


def refused_line(lines: list[str]) -> int | None:
    """The line that is refused; None if all are events."""
    try:
        list(read_events(lines))
    except BadHistory as refused:
        return refused.line
    return None


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_any_text_is_an_event_or_refused(text: str) -> None:
    assert refused_line([text + "\n"]) in (None, 2)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "op",
        "is",
        "n",
        "topic",
        "sub",
        "by",
        "message",
        "messages",
        "ids",
        "id",
        "index",
        "life",
        "t",
    ]
)
OPS = st.sampled_from(["publish", "ack", "receive", "seek", "commit", "start", "scan", "stored"])


@given(st.lists(st.tuples(OPS, st.dictionaries(NAMES, VALUES, max_size=8)), max_size=4))
def test_any_fields_are_an_event_or_refused(events: list[tuple[str, dict[str, object]]]) -> None:
    lines = [json.dumps({"op": op, **fields}) + "\n" for op, fields in events]
    assert refused_line(lines) in (None, *range(2, 2 + len(lines)))


# -- harnesses: what none of them writes is judged of no broker ----------------------------------------

TESTS = Path(__file__).parents[3]
# They write histories of no broker, to judge the judge.
MADE_UP = (TESTS / "unit" / "testing", TESTS / "stage")
WRITERS = ("milepost.testing.checker", "compat.history")


@cache
def written() -> tuple[set[str], set[str]]:
    """The operations and observations that harnesses write, and every name and text beside them."""
    kinds: set[str] = set()
    words: set[str] = set()
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        if any(one in path.parents for one in MADE_UP) or not any(one in text for one in WRITERS):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.keyword) and node.arg is not None:
                words.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                first = node.args[0] if node.args else None
                if node.func.attr in ("note", "invoke") and isinstance(first, ast.Constant):
                    kinds.add(f"{node.func.attr} {first.value}")
    return kinds, words


@pytest.mark.parametrize("op", INVOCATIONS)
def test_every_operation_is_written_by_a_harness(op: str) -> None:
    assert f"invoke {op}" in written()[0]


@pytest.mark.parametrize("op", OBSERVATIONS)
def test_every_observation_is_written_by_a_harness(op: str) -> None:
    assert f"note {op}" in written()[0]


def test_every_field_is_written_by_a_harness() -> None:
    tables = [*INVOCATIONS.values(), *OBSERVATIONS.values()]
    fields = {name for wanted, also in tables for name in (*wanted, *also)}
    fields |= {name for of in RESULTS.values() for name in of}
    assert fields - written()[1] == set()
