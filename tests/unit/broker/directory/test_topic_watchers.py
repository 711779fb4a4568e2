"""Topic watchers: who is told what when topics come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from milepost.broker.directory.topic_watchers import (
    WATCHERS_MAX,
    TopicPattern,
    TopicWatchers,
    topics_hash,
)
from milepost.errors import InvalidInput, TooManyRequests
from milepost.testing import ManualClock
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import HEADER_SIZE

NAMESPACE = "public/default"


def named(*names: str) -> list[str]:
    return [f"persistent://{NAMESPACE}/{name}" for name in names]


def pattern(text: str) -> TopicPattern:
    return TopicPattern(text, length_max=50)


class Listener:
    def __init__(self) -> None:
        self.heard: list[pb.CommandWatchTopicUpdate] = []

    def write(self, buffers: tuple[bytes, ...]) -> None:
        for frame in buffers:
            command = pb.BaseCommand.FromString(frame[HEADER_SIZE:])
            self.heard.append(command.watchTopicUpdate)

    def take(self) -> list[tuple[int, list[str], list[str], str]]:
        heard, self.heard = self.heard, []
        return [
            (one.watcher_id, list(one.new_topics), list(one.deleted_topics), one.topics_hash)
            for one in heard
        ]


class Turns:
    """Turns of a loop, by hand."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def turn(self) -> None:
        waiting = list(self.waiting)
        self.waiting.clear()
        for tell in waiting:
            tell()


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def watchers(turns: Turns) -> TopicWatchers:
    return TopicWatchers(turns.waiting.append)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        (f"persistent://{NAMESPACE}/a.*", ["a", "ab"]),
        (f"{NAMESPACE}/a.*", ["a", "ab"]),
        (f"{NAMESPACE}/a", ["a"]),  # the whole name
        (".*b", ["ab", "b"]),
        (f"non-persistent://{NAMESPACE}/b", ["b"]),  # the scheme does not count, as upstream
        ("nothing", []),
    ],
)
def test_a_pattern_means_whole_names_without_their_scheme(text: str, matches: list[str]) -> None:
    assert pattern(text).matching(named("a", "ab", "b")) == named(*matches)


@pytest.mark.parametrize("text", ["(", "a{2,1}", r"(a)\1", "(?=a)", "x" * 51])
def test_a_pattern_that_cannot_be_is_named(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        pattern(text)
    assert "51 characters" in str(caught.value) or repr(text) in str(caught.value)


def test_no_pattern_takes_for_ever() -> None:
    """`re` would need 2**60 steps for this one."""
    name = "persistent://" + "a" * 60 + "!"
    assert pattern("(a+)+").matching([name]) == []


def test_a_watcher_hears_what_came_and_what_went(watchers: TopicWatchers, turns: Turns) -> None:
    listener = Listener()
    watchers.add(listener, 7, NAMESPACE, pattern(".*/a.*"), named("a1"))
    watchers.changed(NAMESPACE, named("a2", "b2"), ())
    watchers.changed(NAMESPACE, named("a3"), named("a1"))
    assert listener.take() == []
    turns.turn()
    now = topics_hash(named("a2", "a3"))
    assert listener.take() == [(7, named("a2", "a3"), named("a1"), now)]


def test_what_came_and_went_in_one_turn_was_never_there(
    watchers: TopicWatchers, turns: Turns
) -> None:
    listener = Listener()
    watchers.add(listener, 1, NAMESPACE, pattern(".*"), named("a"))
    watchers.changed(NAMESPACE, named("b"), ())
    watchers.changed(NAMESPACE, (), named("b"))
    turns.turn()
    assert listener.take() == []
    watchers.changed(NAMESPACE, named("c"), ())
    turns.turn()
    assert [new for _, new, _, _ in listener.take()] == [named("c")]


def test_what_went_and_came_in_one_turn_was_there_all_the_time(
    watchers: TopicWatchers, turns: Turns
) -> None:
    listener = Listener()
    watchers.add(listener, 1, NAMESPACE, pattern(".*"), named("a"))
    watchers.changed(NAMESPACE, (), named("a"))
    watchers.changed(NAMESPACE, named("a"), ())
    turns.turn()
    assert listener.take() == []


def test_a_turn_tells_some_of_very_many_watchers(watchers: TopicWatchers, turns: Turns) -> None:
    """The hash of each is over all its names: a thousand of them would hold the loop for seconds."""
    listener, names = Listener(), named(*map(str, range(1000)))
    for number in range(5):
        watchers.add(listener, number, NAMESPACE, pattern(".*"), names)
    told = []
    watchers.changed(NAMESPACE, named("new"), ())
    while turns.waiting:
        turns.turn()
        told.append([watcher_id for watcher_id, *_ in listener.take()])
    assert told == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("walks", [1, 3])
def test_a_walk_through_very_many_names_rests_and_misses_nothing(
    watchers: TopicWatchers, walks: int
) -> None:
    """Walks are one at a time. What comes and goes meanwhile is in the answer, or not."""
    names = named(*(f"a{number:04}" for number in range(500)))
    clock = ManualClock()
    looks: list[int] = []

    def list_names() -> list[str]:
        looks.append(len(looks))
        return list(names)

    class Slow(TopicPattern):
        def matching(self, names: Iterable[str]) -> list[str]:
            clock.advance(1)
            return super().matching(names)

    async def run() -> list[list[str]]:
        tasks = [
            asyncio.ensure_future(
                watchers.matching(Slow(".*/a.*", length_max=50), list_names, clock)
            )
            for _ in range(walks)
        ]
        await asyncio.sleep(0)
        assert looks == [0], "the others wait for their turn"
        names.remove(names[0])
        names.extend(named("a9999", "b"))
        return await asyncio.gather(*tasks)

    expected = sorted([*names[1:], *named("a9999")])
    assert asyncio.run(run()) == [expected] * walks


def test_others_hear_nothing(watchers: TopicWatchers, turns: Turns) -> None:
    elsewhere, closed, gone = Listener(), Listener(), Listener()
    watchers.add(elsewhere, 1, "public/other", pattern(".*"), ())
    watchers.add(closed, 1, NAMESPACE, pattern(".*"), ())
    watchers.add(gone, 1, NAMESPACE, pattern(".*"), ())
    watchers.changed(NAMESPACE, named("a"), ())
    watchers.remove(closed, 1)
    watchers.remove(closed, 1)
    watchers.forget(gone)
    turns.turn()
    assert (elsewhere.take(), closed.take(), gone.take()) == ([], [], [])
    assert len(watchers) == 1


def test_an_id_that_is_in_use_begins_anew(watchers: TopicWatchers, turns: Turns) -> None:
    listener = Listener()
    watchers.add(listener, 1, NAMESPACE, pattern(".*/a"), ())
    watchers.add(listener, 1, NAMESPACE, pattern(".*/b"), ())
    watchers.changed(NAMESPACE, named("a", "b"), ())
    turns.turn()
    assert [new for _, new, _, _ in listener.take()] == [named("b")]


def test_a_connection_may_not_have_any_number(watchers: TopicWatchers) -> None:
    listener = Listener()
    for number in range(WATCHERS_MAX):
        watchers.add(listener, number, NAMESPACE, pattern("a"), ())
    with pytest.raises(TooManyRequests):
        watchers.add(listener, WATCHERS_MAX, NAMESPACE, pattern("a"), ())
    watchers.add(listener, 0, NAMESPACE, pattern("b"), ())
    watchers.add(Listener(), 0, NAMESPACE, pattern("b"), ())
