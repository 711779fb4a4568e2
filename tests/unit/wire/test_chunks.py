from __future__ import annotations

from milepost.positions import Position
from milepost.wire.chunks import ChunkAssembler, Orphan, Repeated, Waiting, Whole
from milepost.wire.events import ChunkInfo


class Feed:
    """Chunks of three bytes each; the entry of a chunk is its place in the log."""

    def __init__(self, waiting_max: int = 10) -> None:
        self.assembler = ChunkAssembler(waiting_max, expire_after_ms=1000)

    def __call__(
        self, chunk_id: int, entry_id: int, uuid: str = "p-0", of: int = 3, now_ms: int = 0
    ) -> Waiting | Whole | Repeated | Orphan:
        info = ChunkInfo(uuid, chunk_id, of, total_size=3 * of)
        part = f"{entry_id:03}".encode()
        return self.assembler.add(info, Position(1, entry_id), part, now_ms)


def positions(*entries: int) -> tuple[Position, ...]:
    return tuple(Position(1, entry) for entry in entries)


def test_a_message_in_order() -> None:
    feed = Feed()
    assert feed(0, 10) == Waiting()
    assert feed(1, 11) == Waiting()
    assert feed(2, 12) == Whole(b"010011012", positions(10, 11, 12))
    assert len(feed.assembler) == 0


def test_messages_of_many_producers_interleave() -> None:
    feed = Feed()
    feed(0, 0, "a", of=2)
    feed(0, 1, "b", of=2)
    assert feed(1, 2, "b", of=2) == Whole(b"001002", positions(1, 2))
    assert feed(1, 3, "a", of=2) == Whole(b"000003", positions(0, 3))


def test_a_message_of_one_chunk() -> None:
    assert Feed()(0, 5, of=1) == Whole(b"005", positions(5))


def test_a_redelivery_begins_again() -> None:
    """0, 1, then 0, 1, 2 of the same entries: one message, nothing given up."""
    feed = Feed()
    feed(0, 10)
    feed(1, 11)
    assert feed(0, 10) == Waiting()
    assert feed(1, 11) == Waiting()
    assert feed(2, 12) == Whole(b"010011012", positions(10, 11, 12))


def test_chunk_0_again_in_another_entry_is_a_new_message() -> None:
    """A restarted producer repeats its uuids, or a failed send was repeated from its first chunk."""
    feed = Feed()
    feed(0, 10)
    feed(1, 11)
    assert feed(0, 12) == Waiting(given_up=positions(10, 11))
    assert feed(1, 13) == Waiting()
    assert feed(2, 14) == Whole(b"012013014", positions(12, 13, 14))


def test_a_new_message_of_one_chunk_gives_up_the_old_one() -> None:
    feed = Feed()
    feed(0, 10)
    assert feed(0, 12, of=1) == Whole(b"012", positions(12), given_up=positions(10))
    assert len(feed.assembler) == 0


def test_a_chunk_repeated_in_the_middle() -> None:
    feed = Feed()
    feed(0, 10)
    feed(1, 11)
    assert feed(1, 11) == Repeated(is_same_entry=True)
    assert feed(1, 15) == Repeated(is_same_entry=False)
    assert feed(2, 16) == Whole(b"010011016", positions(10, 11, 16))


def test_an_orphan_of_nothing() -> None:
    feed = Feed()
    assert feed(2, 12) == Orphan(())
    assert len(feed.assembler) == 0


def test_a_gap_gives_the_message_up() -> None:
    feed = Feed()
    feed(0, 10)
    assert feed(2, 12) == Orphan(positions(10))
    assert feed(1, 13) == Orphan(())


def test_chunks_that_disagree_on_their_number() -> None:
    feed = Feed()
    feed(0, 10, of=3)
    assert feed(1, 11, of=2) == Orphan(positions(10))


def test_more_bytes_than_the_message_was_to_have() -> None:
    assembler = ChunkAssembler()
    assembler.add(ChunkInfo("a", 0, 3, 5), Position(1, 0), b"abc", 0)
    late = ChunkInfo("a", 1, 3, 5)
    assert assembler.add(late, Position(1, 1), b"def", 0) == Orphan(positions(0))
    at_once = ChunkInfo("b", 0, 2, 2)
    assert assembler.add(at_once, Position(1, 2), b"abc", 0) == Orphan(())
    assert len(assembler) == 0


def test_the_oldest_is_given_up_when_too_many_wait() -> None:
    feed = Feed(waiting_max=2)
    feed(0, 0, "a")
    feed(0, 1, "b")
    feed(1, 2, "a")
    assert feed(0, 3, "c") == Waiting(given_up=positions(0, 2))
    assert feed(1, 4, "b") == Waiting()
    assert feed(2, 5, "a") == Orphan(())


def test_beginning_again_does_not_count_twice() -> None:
    feed = Feed(waiting_max=2)
    feed(0, 0, "a")
    feed(0, 1, "b")
    assert feed(0, 1, "b") == Waiting()
    assert len(feed.assembler) == 2


def test_what_began_too_long_ago_expires() -> None:
    feed = Feed()
    feed(0, 0, "a", now_ms=0)
    feed(0, 1, "b", now_ms=500)
    feed(1, 2, "a", now_ms=999)
    assert feed.assembler.expire(now_ms=999) == []
    assert feed.assembler.expire(now_ms=1000) == list(positions(0, 2))
    assert feed(2, 3, "a", now_ms=1000) == Orphan(())
    assert feed(1, 4, "b", now_ms=1000) == Waiting()


def test_a_seek_forgets_everything() -> None:
    feed = Feed()
    feed(0, 0, "a")
    feed(0, 1, "b")
    assert feed.assembler.clear() == list(positions(0, 1))
    assert len(feed.assembler) == 0
