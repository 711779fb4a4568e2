"""Cuts the network between brokers of a cluster, pair by pair, while each still reaches the object store.

Brokers find each other on the board. The proxy in front of each broker's store (`store_proxy.py`) shows it
notices of the others in which their own ports, for hails and for calls, are those of a forwarder here. A
forwarder belongs to one broker that connects and one that is connected to:

    cuts = BrokerCuts()
    proxy.rewrite = cuts.seen_by("a")                # the notices that broker "a" reads
    with cuts.silent(("a", "b"), ("b", "a")): …      # nothing passes between them; connections stay open
    with cuts.refused(("a", "b")): …                 # "a" is refused, as if the process of "b" were gone

Ports of clients are not touched.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

PIECE = 65536
# Between two looks whether a broker is there.
LOOK_S = 0.2
Pair = tuple[str, str]
"""A broker that connects, and the one that it connects to."""


class BrokerCuts:
    """Forwarders for all pairs, on a loop of their own."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        """`name_of`: which broker has an HTTP address, by the name that pairs are given by."""
        self._name_of = name_of
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._forwarders: dict[tuple[Pair, str, int], _Forwarder] = {}
        self._silent: set[Pair] = set()
        self._refused: set[Pair] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """Connections: they live as long as they are referred to."""
        self.faults: Counter[str] = Counter()
        """Connections that met a cut, by its kind."""

    def __enter__(self) -> BrokerCuts:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for one in self._forwarders.values():
            one.refuse()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # -- what brokers see of each other --------------------------------------------------------------

    def seen_by(self, broker: str) -> Callable[[str, bytes], bytes]:
        """What changes the objects that a broker reads."""

        def rewrite(path: str, body: bytes) -> bytes:
            if "/board/" not in path:
                return body
            notice = json.loads(body)
            pair = broker, self._name_of(notice["http_url"])
            host, port = notice["host"], notice["hail_port"]
            notice["hail_port"] = self._port(pair, host, port, is_hail=True)
            for seat in notice["shards"].values():
                if seat is not None:  # epoch, host, port, tls_port, link_port
                    seat[4] = self._port(pair, seat[1], seat[4])
            return json.dumps(notice).encode()

        return rewrite

    def _port(self, pair: Pair, host: str, port: int, *, is_hail: bool = False) -> int:
        """Where a broker reaches a port of another."""
        found: int = self._do(self._forwarder(pair, host, port, is_hail=is_hail)).port
        return found

    async def _forwarder(self, pair: Pair, host: str, port: int, *, is_hail: bool) -> _Forwarder:
        key = pair, host, port
        if key not in self._forwarders:
            made = self._forwarders[key] = _Forwarder(self, pair, host, port)
            made.listen()
            if is_hail:
                made.follow()
            if pair in self._refused:
                made.refuse()
        return self._forwarders[key]

    # -- cuts ----------------------------------------------------------------------------------------

    @contextmanager
    def silent(self, *pairs: Pair) -> Iterator[None]:
        """Let nothing pass. What was sent meanwhile arrives afterwards, as after lost packets."""
        self._do(self._changed(self._silent, pairs, is_cut=True))
        try:
            yield
        finally:
            self._do(self._changed(self._silent, pairs, is_cut=False))

    @contextmanager
    def refused(self, *pairs: Pair) -> Iterator[None]:
        """Refuse new connections, as a firewall does; those that are there stay."""
        self._do(self._changed(self._refused, pairs, is_cut=True))
        try:
            yield
        finally:
            self._do(self._changed(self._refused, pairs, is_cut=False))

    def is_silent(self, pair: Pair) -> bool:
        return pair in self._silent

    async def _changed(self, cut: set[Pair], pairs: tuple[Pair, ...], *, is_cut: bool) -> None:
        cut.update(pairs) if is_cut else cut.difference_update(pairs)
        if cut is self._refused:
            for (pair, _, _), one in list(self._forwarders.items()):
                if pair in pairs:
                    if is_cut:
                        self.faults["refused"] += 1
                        one.refuse()
                    else:
                        one.listen()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


class _Forwarder:
    """One port, through which a broker reaches one port of another."""

    def __init__(self, cuts: BrokerCuts, pair: Pair, host: str, port: int) -> None:
        self._cuts = cuts
        self._pair = pair
        self._to = host, port
        # Not a server of asyncio: one that closes right behind an accept forgets what it accepted.
        self._listening: socket.socket | None = None
        self._following: asyncio.Task[None] | None = None
        self._is_gone = False
        self.port = 0

    def listen(self) -> None:
        if self._listening is None and not self._is_gone:
            self._listening = socket.create_server(("127.0.0.1", self.port))
            self._listening.setblocking(False)
            self.port = self._listening.getsockname()[1]
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        assert self._listening is not None
        try:
            accepted, _ = self._listening.accept()
        except (BlockingIOError, ConnectionError):
            return  # whoever came is gone
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(accepted))
        self._cuts.tasks.add(task)
        task.add_done_callback(self._cuts.tasks.discard)

    def refuse(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    def follow(self) -> None:
        """Refuse for good when the broker does: others take its shards over then."""
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        while not self._is_gone:
            await asyncio.sleep(LOOK_S)  # sleep: between two looks
            try:
                _, writer = await asyncio.open_connection(*self._to)
                writer.close()
            except ConnectionRefusedError:
                self._is_gone = True
                self.refuse()
            except OSError:
                continue  # out of descriptors, or the like

    async def _serve(self, accepted: socket.socket) -> None:
        writers: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=accepted)
            writers.append(writer)
            await self._pass()
            far_reader, far_writer = await asyncio.open_connection(*self._to)
            writers.append(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, far_writer))
                group.create_task(self._carry(far_reader, writer))
            for one in writers:
                one.close()
        except* OSError:
            pass  # one of the two is gone: so is the other, for its peer
        finally:
            for one in writers:
                if not one.is_closing():
                    one.transport.abort()
            if not writers:
                accepted.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            await self._pass()
            writer.write(data)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()

    async def _pass(self) -> None:
        """Wait while nothing passes."""
        pair = self._pair
        if self._cuts.is_silent(pair):
            self._cuts.faults["silent"] += 1
        while self._cuts.is_silent(pair):
            await asyncio.sleep(0.02)  # sleep: as a network that loses everything
