"""ChunkAffinity: a chunked message stays together, and an orphan never waits."""

from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from milepost.broker import chunk_affinity as module
from milepost.broker.chunk_affinity import ChunkAffinity
from milepost.wire.events import ChunkInfo


def chunk(chunk_id: int, count: int = 3, uuid: str = "p-1") -> ChunkInfo:
    return ChunkInfo(uuid, chunk_id, count, 1000)


def test_the_docstring_is_true() -> None:
    assert doctest.testmod(module).failed == 0


def test_the_first_chunk_binds_the_others_until_the_last() -> None:
    affinity = ChunkAffinity()
    assert affinity.holder_of(chunk(0)) is None
    affinity.assigned(chunk(0), 4)
    assert affinity.holder_of(chunk(1)) == 4
    affinity.assigned(chunk(1), 4)
    assert affinity.holder_of(chunk(2)) == 4
    affinity.assigned(chunk(2), 4)
    assert len(affinity) == 0


def test_messages_do_not_bind_each_other() -> None:
    affinity = ChunkAffinity()
    affinity.assigned(chunk(0, uuid="p-1"), 1)
    affinity.assigned(chunk(0, uuid="q-1"), 2)
    assert affinity.holder_of(chunk(1, uuid="p-1")) == 1
    assert affinity.holder_of(chunk(1, uuid="q-1")) == 2


def test_an_orphan_goes_to_anybody_and_binds_nothing() -> None:
    affinity = ChunkAffinity()
    assert affinity.holder_of(chunk(1)) is None
    affinity.assigned(chunk(1), 4)
    assert affinity.holder_of(chunk(2)) is None


def test_a_message_of_one_chunk_binds_nothing() -> None:
    affinity = ChunkAffinity()
    affinity.assigned(chunk(0, 1), 4)
    assert len(affinity) == 0


def test_a_consumer_that_leaves_frees_its_messages_only() -> None:
    affinity = ChunkAffinity()
    affinity.assigned(chunk(0, uuid="p-1"), 1)
    affinity.assigned(chunk(0, uuid="p-2"), 2)
    affinity.leave(1)
    assert affinity.holder_of(chunk(1, uuid="p-1")) is None
    assert affinity.holder_of(chunk(1, uuid="p-2")) == 2


def test_a_first_chunk_delivered_again_binds_anew() -> None:
    affinity = ChunkAffinity()
    affinity.assigned(chunk(0), 1)
    assert affinity.holder_of(chunk(0)) == 1
    affinity.leave(1)
    affinity.assigned(chunk(0), 2)
    assert affinity.holder_of(chunk(1)) == 2


def test_past_the_maximum_the_oldest_message_becomes_an_orphan() -> None:
    affinity = ChunkAffinity(messages_max=2)
    affinity.assigned(chunk(0, uuid="p-1"), 1)
    affinity.assigned(chunk(0, uuid="p-2"), 1)
    affinity.assigned(chunk(0, uuid="p-1"), 1)  # begun again: now the younger one
    affinity.assigned(chunk(0, uuid="p-3"), 1)
    assert [affinity.holder_of(chunk(1, uuid=f"p-{n}")) for n in (1, 2, 3)] == [1, None, 1]


def test_a_message_begun_again_takes_no_more_room() -> None:
    affinity = ChunkAffinity(messages_max=2)
    for number in (1, 2, 2):
        affinity.assigned(chunk(0, uuid=f"p-{number}"), 1)
    assert [affinity.holder_of(chunk(1, uuid=f"p-{n}")) for n in (1, 2)] == [1, 1]


def test_a_uuid_of_any_length_is_remembered_in_little_space() -> None:
    affinity = ChunkAffinity()
    long, other = "x" * 100_000, "x" * 99_999 + "y"
    affinity.assigned(chunk(0, uuid=long), 1)
    assert affinity.holder_of(chunk(1, uuid=long)) == 1
    assert affinity.holder_of(chunk(1, uuid=other)) is None
    assert all(len(uuid) < 100 for uuid in affinity._holders)


def test_a_seek_clears_it() -> None:
    affinity = ChunkAffinity()
    affinity.assigned(chunk(0), 1)
    affinity.clear()
    assert affinity.holder_of(chunk(1)) is None


steps = st.one_of(
    st.tuples(st.sampled_from(["p-1", "p-2", "p-3"]), st.integers(0, 2), st.integers(1, 3)),
    st.integers(1, 3),
)


@given(st.lists(steps, max_size=40))
def test_whoever_began_a_message_is_its_holder(script: list) -> None:
    """Against the history itself: the last first chunk that nothing has ended since."""
    affinity = ChunkAffinity()
    history: list[tuple] = []
    for step in script:
        if isinstance(step, int):
            affinity.leave(step)
        else:
            uuid, chunk_id, holder = step
            affinity.assigned(chunk(chunk_id, uuid=uuid), holder)
        history.append(step)
        for uuid in ("p-1", "p-2", "p-3"):
            expected = None
            for past in history:
                if past == expected or (not isinstance(past, int) and past[:2] == (uuid, 2)):
                    expected = None
                elif not isinstance(past, int) and past[:2] == (uuid, 0):
                    expected = past[2]
            assert affinity.holder_of(chunk(1, uuid=uuid)) == expected
