"""The committer on a bucket: several groups on their way, answers in order, lingering under load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from milepost.errors import PersistenceError
from milepost.storage.bucket import journal as journal_module
from milepost.storage.bucket.chain import WINDOW, decode_group, place_of
from milepost.storage.bucket.committer import BucketCommitter
from milepost.storage.bucket.journal import BucketJournal
from milepost.storage.bucket.manifest import Place
from milepost.storage.bucket.objects import Create, Done, Reply, Request
from milepost.storage.journal.records import FACT, scan, seed_of
from milepost.testing import ManualClock
from milepost.testing.bucket import MemoryBucket

INCARNATION = bytes(range(16))
NONCE = bytes(16)


class HeldBucket(MemoryBucket):
    """Carries out a creation when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, asyncio.Future[None]] = {}

    async def answer(self, request: Request) -> Reply:
        if isinstance(request, Create):
            place = place_of(request.key)
            assert place is not None
            self.held[place.number] = asyncio.get_running_loop().create_future()
            await self.held[place.number]
        return self.apply(request)


class Bench:
    def __init__(self, bucket: MemoryBucket, linger_s: float = 0.0) -> None:
        self.bucket = bucket
        self.clock = ManualClock()
        self.journal = BucketJournal(INCARNATION, 3, Place(2, 5), file_number=4, next_sequence=10)
        self.committer = BucketCommitter(
            self.journal, bucket, NONCE, self.clock, linger_s, lambda: None
        )
        self.answers: list[bytes] = []
        self.errors: list[PersistenceError | None] = []

    def submit(self, body: bytes) -> None:
        def done(error: PersistenceError | None) -> None:
            self.errors.append(error)
            self.answers.append(body)

        self.journal.submit(FACT, 1, (body,), done)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def on_loop(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())


def test_a_group_is_the_records_that_waited_together() -> None:
    async def test() -> None:
        bench = Bench(MemoryBucket())
        for body in (b"a", b"b", b"c"):
            bench.submit(body)
        await turns()
        assert bench.answers == [b"a", b"b", b"c"]
        ((key, data),) = bench.bucket.objects.items()
        place = place_of(key)
        assert place == Place(3, 0)
        group = decode_group(data, place)
        assert group is not None
        scanned = scan(group.body, 0, key, group.first_sequence, seed_of(INCARNATION), whole=True)
        assert [(one.sequence, one.group, one.body) for one in scanned.records] == [
            (10, 10, b"a"),
            (11, 10, b"b"),
            (12, 10, b"c"),
        ]
        assert not scanned.damages

    on_loop(test)


def test_groups_are_answered_in_order_whichever_lands_first() -> None:
    async def test() -> None:
        bucket = HeldBucket()
        bench = Bench(bucket)
        for body in (b"a", b"b", b"c"):
            bench.submit(body)
            await turns()
        assert sorted(bucket.held) == [0, 1, 2]
        bucket.held[2].set_result(None)
        bucket.held[1].set_result(None)
        await turns()
        assert bench.answers == []
        bucket.held[0].set_result(None)
        await turns()
        assert bench.answers == [b"a", b"b", b"c"]
        assert bench.journal.commits == 3

    on_loop(test)


def test_no_more_groups_are_on_their_way_than_the_window_has() -> None:
    async def test() -> None:
        bucket = HeldBucket()
        bench = Bench(bucket)
        for n in range(WINDOW + 3):
            bench.submit(b"%d" % n)
            await turns()
        assert len(bucket.held) == WINDOW
        bucket.held[0].set_result(None)
        await turns()
        assert len(bucket.held) == WINDOW + 1, "the rest goes together"
        for n in range(1, WINDOW + 1):
            bucket.held[n].set_result(None)
        await turns()
        assert len(bench.answers) == WINDOW + 3

    on_loop(test)


def test_a_lone_record_leaves_at_once_and_others_linger_while_it_is_on_its_way() -> None:
    async def test() -> None:
        bucket = HeldBucket()
        bench = Bench(bucket, linger_s=3600.0)
        bench.submit(b"a")
        await turns()
        assert sorted(bucket.held) == [0]
        bench.submit(b"b")
        bench.submit(b"c")
        await turns()
        assert sorted(bucket.held) == [0]
        bucket.held[0].set_result(None)
        await turns()
        assert sorted(bucket.held) == [0, 1], "what lingered leaves when nothing is on its way"
        bench.submit(bytes(journal_module.LARGE))
        await turns()
        assert sorted(bucket.held) == [0, 1, 2], "a large group does not linger"
        for n in (1, 2):
            bucket.held[n].set_result(None)
        await turns()
        assert len(bench.answers) == 4
        bench.committer.stop()

    on_loop(test)


def test_a_large_group_leaves_before_the_turn_is_over() -> None:
    async def test() -> None:
        bucket = HeldBucket()
        bench = Bench(bucket, linger_s=3600.0)
        half = bytes(journal_module.LARGE // 2)
        bench.submit(half)
        assert sorted(bucket.held) == []
        for _ in range(4):
            bench.submit(half)
        assert sorted(bucket.held) == [0, 1], "two halves each, and one that waits for more"
        await turns()
        assert sorted(bucket.held) == [0, 1]
        bucket.held[1].set_result(None)
        await turns()
        assert bench.answers == [], "the group before it has not landed"
        bucket.held[0].set_result(None)
        await turns()
        assert len(bench.answers) == 4
        assert sorted(bucket.held) == [0, 1, 2], "nothing is on its way, so the rest leaves"
        bucket.held[2].set_result(None)
        await turns()
        assert bench.answers == 5 * [half]

    on_loop(test)


def test_nothing_is_answered_while_a_record_is_being_submitted() -> None:
    async def test() -> None:
        bench = Bench(MemoryBucket())
        rolled: list[PersistenceError | None] = []
        large = bytes(journal_module.LARGE)
        bench.journal.roll(rolled.append)
        bench.submit(large)
        bench.submit(large)
        assert len(bench.bucket.objects) == 1, "what a store answers at once is stored at once"
        assert (rolled, bench.answers) == ([], [])
        await turns()
        assert (rolled, bench.answers) == ([None], [large, large])

    on_loop(test)


def test_large_groups_wait_for_room_in_the_window() -> None:
    async def test() -> None:
        bucket = HeldBucket()
        bench = Bench(bucket, linger_s=3600.0)
        for _ in range(WINDOW + 2):
            bench.submit(bytes(journal_module.LARGE))
        assert len(bucket.held) == WINDOW
        await turns()
        assert len(bucket.held) == WINDOW
        bucket.held[0].set_result(None)
        await turns()
        assert len(bucket.held) == WINDOW + 1, "the rest goes together"
        for n in range(1, WINDOW + 1):
            bucket.held[n].set_result(None)
        await turns()
        assert len(bench.answers) == WINDOW + 2

    on_loop(test)


def test_a_bucket_that_breaks_at_once_ends_the_journal_and_not_the_submitter() -> None:
    class Broken(MemoryBucket):
        async def answer(self, request: Request) -> Reply:
            raise RuntimeError("out of order")

    async def test() -> None:
        bench = Bench(Broken())
        fatal: list[str] = []
        bench.committer.on_fatal = fatal.append
        bench.submit(bytes(journal_module.LARGE))
        assert fatal == []
        await turns()
        assert len(fatal) == 1
        assert "out of order" in fatal[0]
        assert bench.answers == []

    on_loop(test)


def test_stopping_cancels_the_requests_that_are_on_their_way() -> None:
    cancelled: list[str] = []

    class Watched(HeldBucket):
        async def answer(self, request: Request) -> Reply:
            try:
                return await super().answer(request)
            except asyncio.CancelledError:
                cancelled.append(type(request).__name__)
                raise

    async def test() -> None:
        bench = Bench(Watched())
        bench.submit(b"a")
        await turns()
        bench.committer.stop()
        await turns()
        assert cancelled == ["Create"]
        assert bench.answers == []

    on_loop(test)


def test_a_roll_is_answered_behind_what_stands_before_it_and_knows_the_floor() -> None:
    async def test() -> None:
        bucket = HeldBucket()
        bench = Bench(bucket)
        journal = bench.journal
        assert journal.floor(3) == Place(2, 5), "no checkpoint yet: where this start began"
        bench.submit(b"a")
        rolled: list[PersistenceError | None] = []
        assert journal.roll(rolled.append) == 10
        bench.submit(b"b")
        await turns()
        bucket.held[1].set_result(None)
        await turns()
        assert rolled == []
        bucket.held[0].set_result(None)
        await turns()
        assert (rolled, bench.answers) == ([None], [b"a", b"b"])
        assert journal.floor(journal.rolled_to) == Place(3, 1)
        assert journal.floor(4) == Place(3, 0)
        journal.forget_before(journal.rolled_to)
        assert journal.floor(4) == Place(3, 1)

    on_loop(test)


def test_another_object_at_our_number_ends_everything_without_an_answer() -> None:
    async def test() -> None:
        bucket = HeldBucket()
        bench = Bench(bucket)
        fatal: list[str] = []
        bench.committer.on_fatal = fatal.append
        bucket.objects["journal/00000003/000000000001"] = b"theirs"
        for body in (b"a", b"b", b"c"):
            bench.submit(body)
            await turns()
        for n in (1, 2, 0):
            bucket.held[n].set_result(None)
            await turns()
        assert len(fatal) == 1
        assert "Fenced" in fatal[0]
        assert bench.answers == [], "not even the group before it"
        bench.submit(b"d")
        await turns()
        assert bench.answers == []
        assert len(bucket.held) == 3, "nothing more is sent"

    on_loop(test)


def test_requests_that_lose_their_answer_are_settled() -> None:
    async def test() -> None:
        bucket = MemoryBucket()
        bench = Bench(bucket)
        answers = iter([True, False, False])
        bucket.lose = lambda request: next(answers, False)
        bench.submit(b"a")
        while not bench.answers:
            await asyncio.sleep(0)
        assert bench.errors == [None]
        assert isinstance(bucket.apply(Create("x", b"")), Done)

    on_loop(test)
