"""The proxy between a client that talks and a server that echoes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import accumulate, islice

import pytest

from milepost.testing.proxy import Direction, Link, Proxy, Weather

LIMIT_S = 20.0
TEXT = bytes(range(256)) * 40


class Echo(asyncio.Protocol):
    """Sends back what comes, and remembers in which pieces it came."""

    pieces: list[bytes]
    is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.pieces = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True


@asynccontextmanager
async def stage(seed: int = 0, weather: Weather | None = None) -> AsyncIterator[Stage]:
    echoes: list[Echo] = []

    def make() -> Echo:
        echoes.append(Echo())
        return echoes[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Proxy("127.0.0.1", port, seed=seed, weather=weather or Weather()) as proxy:
        yield Stage(proxy, echoes)
    assert not any(link.is_open for link in proxy.links)
    server.close()


class Stage:
    def __init__(self, proxy: Proxy, echoes: list[Echo]) -> None:
        self.proxy = proxy
        self.echoes = echoes

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Link]:
        count = len(self.proxy.links)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        await self.proxy.connected(count + 1)
        return reader, writer, self.proxy.links[count]


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await test()

    asyncio.run(limited())


def plan(seed: str, weather: Weather) -> list[tuple[int, float, float]]:
    return list(islice(Direction(weather, seed).pieces(), 50))


def test_a_seed_is_a_plan() -> None:
    weather = Weather(piece_max=100, merge_odds=0.5, delay_ms_max=10)
    assert plan("1", weather) == plan("1", weather)
    assert plan("1", weather) != plan("2", weather)
    sizes, fills, delays = zip(*plan("1", weather), strict=True)
    assert min(sizes) >= 1
    assert max(sizes) <= 100
    assert set(fills) == {0.0, 0.02}
    assert 0 < max(delays) <= 0.01


def test_one_setting_does_not_change_what_another_does() -> None:
    split = plan("1", Weather(piece_max=100))
    both = plan("1", Weather(piece_max=100, delay_ms_max=10, merge_odds=0.5))
    assert [piece[0] for piece in split] == [piece[0] for piece in both]


def test_in_calm_weather_everything_passes_and_is_remembered() -> None:
    async def test() -> None:
        async with stage() as on:
            reader, writer, link = await on.dial()
            writer.write(TEXT)
            assert await reader.readexactly(len(TEXT)) == TEXT
            assert bytes(link.to_server.passed) == bytes(link.to_client.passed) == TEXT
            assert on.proxy.url == f"pulsar://127.0.0.1:{on.proxy.port}"
            writer.write_eof()
            assert await reader.read() == b""
            await link.closed()
            writer.close()

    run(test)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_weather_no_byte_changes(seed: int) -> None:
    async def test() -> None:
        weather = Weather(delay_ms_max=0.5, piece_max=500, merge_odds=0.3, merge_wait_ms=1)
        async with stage(seed, weather) as on:
            reader, writer, link = await on.dial()
            writer.write(TEXT)
            assert await reader.readexactly(len(TEXT)) == TEXT
            assert bytes(link.to_client.passed) == TEXT
            writer.close()

    run(test)


def test_splits_come_at_the_bytes_of_the_plan() -> None:
    async def test() -> None:
        weather = Weather(piece_max=600)
        async with stage(3, weather) as on:
            reader, writer, _ = await on.dial()
            writer.write(TEXT)
            await reader.readexactly(len(TEXT))
            ends, end = set(), 0
            for size, _, _ in plan("3/0/to_server", weather):
                ends.add(end := end + size)
            at, seen = 0, set()
            for piece in on.echoes[0].pieces:
                seen.add(at := at + len(piece))
            # The loop may have been slow to read, and taken two pieces at once; none is split again.
            assert len(seen) > 3
            assert seen - ends <= {len(TEXT)}
            writer.close()

    run(test)


class Recorder:
    """A writer that remembers what it was given, piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    async def drain(self) -> None:
        pass


@pytest.mark.parametrize("dribble", [1, 7, 1000, len(TEXT)])
def test_however_bytes_arrive_they_are_split_at_the_same_places(dribble: int) -> None:
    async def test() -> None:
        weather = Weather(piece_max=600)
        direction, recorder = Direction(weather, "3"), Recorder()
        reader = asyncio.StreamReader()
        carrying = asyncio.create_task(direction.carry(reader, recorder))  # type: ignore[arg-type]
        for at in range(0, len(TEXT), dribble):
            reader.feed_data(TEXT[at : at + dribble])
            await asyncio.sleep(0)
        reader.feed_eof()
        await carrying
        assert b"".join(recorder.pieces) == TEXT
        ends = set(accumulate(len(piece) for piece in recorder.pieces))
        planned = set(accumulate(size for size, _, _ in plan("3", weather)))
        assert {end for end in planned if end < len(TEXT)} <= ends

    run(test)


def test_pieces_are_merged_while_they_wait() -> None:
    async def test() -> None:
        async with stage(0, Weather(piece_max=1_000_000, merge_odds=1, merge_wait_ms=50)) as on:
            reader, writer, link = await on.dial()
            for number in range(10):
                writer.write(b"%d" % number)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.readexactly(10)
            assert bytes(link.to_server.passed) == b"0123456789"
            assert len(on.echoes[0].pieces) < 10
            writer.close()

    run(test)


def test_a_paused_direction_holds_its_bytes_and_the_other_goes_on() -> None:
    async def test() -> None:
        async with stage() as on:
            reader, writer, link = await on.dial()
            link.to_client.pause()
            writer.write(b"question")
            await link.to_server.has_passed(8)
            assert not link.to_client.passed
            link.to_client.resume()
            assert await reader.readexactly(8) == b"question"
            assert bytes(link.to_client.passed) == b"question"
            writer.close()

    run(test)


@pytest.mark.parametrize("count", [0, 1, 999])
def test_a_connection_is_cut_behind_a_chosen_byte(count: int) -> None:
    async def test() -> None:
        async with stage() as on:
            reader, writer, link = await on.dial()
            link.to_client.cut_after(count)
            writer.write(TEXT)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(len(TEXT))
            await link.closed()
            assert bytes(link.to_client.passed) == TEXT[:count]
            writer.close()

    run(test)


def test_connections_are_cut_at_random_and_the_same_ones_each_time() -> None:
    async def cuts(seed: int) -> list[tuple[int, int]]:
        found = []
        async with stage(seed, Weather(cut_after_max=5000, cut_odds=0.5)) as on:
            for _ in range(6):
                reader, writer, link = await on.dial()
                writer.write(TEXT)
                try:
                    await reader.readexactly(len(TEXT))
                    found.append((-1, -1))
                except (ConnectionError, asyncio.IncompleteReadError):
                    await link.closed()
                    sent, back = len(link.to_server.passed), len(link.to_client.passed)
                    # Of the direction that was not cut it is TCP's to say how far it came.
                    found.append((0, back) if sent >= len(TEXT) else (sent, 0))
                writer.close()
        return found

    async def test() -> None:
        first = await cuts(5)
        assert {count for count, _ in first} != {-1}
        assert (-1, -1) in first
        assert await cuts(5) == first
        assert await cuts(6) != first

    run(test)


def test_a_cut_ends_everything_now() -> None:
    async def test() -> None:
        async with stage() as on:
            reader, writer, link = await on.dial()
            writer.write(b"x")
            await reader.readexactly(1)
            assert link.is_open
            on.proxy.cut()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            await link.closed()
            assert not link.is_open
            writer.close()
            on.proxy.is_refusing = True
            reader, writer = await asyncio.open_connection("127.0.0.1", on.proxy.port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            assert len(on.proxy.links) == 1
            writer.close()

    run(test)


def test_where_nobody_listens_the_client_is_hung_up_on() -> None:
    async def test() -> None:
        async with Proxy("127.0.0.1", 1) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()

    run(test)
