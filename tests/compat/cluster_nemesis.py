"""Makes trouble for a cluster: kills, pauses, drains, moves, cuts, a store that refuses and loses answers.

Three things go on at a time, each with its own clock: one fault after the other from the list; one broker
that sleeps for 30 seconds; and the network between brokers, which is cut pair by pair.
"""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

from compat.broker_process import BrokerProcess
from compat.test_cluster import Cluster
from stage.broker_cuts import BrokerCuts
from stage.store_proxy import FINE, StoreProxy, Weather

LONG_PAUSE_S = 30.0


class Nemesis:
    def __init__(
        self,
        cluster: Cluster,
        proxies: list[StoreProxy],
        cuts: BrokerCuts,
        names: list[str],
        seed: int,
    ) -> None:
        """`names`: topics whose shards are moved."""
        self.cluster = cluster
        self.proxies = proxies
        self.cuts = cuts
        self.names = names
        self.random = Random(seed)
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self._asleep: BrokerProcess | None = None
        # It was killed or stopped, and has not said yet that it is up: nothing can be asked of it.
        self._starting: BrokerProcess | None = None
        """The broker that sleeps for long: it is killed, perhaps, and nothing else."""
        self._turn = threading.Lock()  # no broker is put to sleep while another fault chooses one

    def run(self, seconds: float, is_broken: Callable[[], bool]) -> None:
        """Until the time is over; at the end no fault lasts."""
        until = time.monotonic() + seconds
        beside = [
            threading.Thread(target=self._guarded, args=(work, until), daemon=True)
            for work in (self._cut_pairs, self._sleep_long)
        ]
        for thread in beside:
            thread.start()
        kinds = [
            self.storm,
            self.kill,
            self.move,
            self.cut,
            self.kill_process,
            self.drain,
            self.pause,
        ]
        self.random.shuffle(kinds)
        turn = 0
        while time.monotonic() < until and not is_broken():
            kind = kinds[turn % len(kinds)] if turn < len(kinds) else self.random.choice(kinds)
            turn += 1
            kind()
            self.done[kind.__name__] += 1
            self.rest(0.5, 3)
        for thread in beside:
            thread.join()
        assert not self.failures, self.failures

    def _guarded(self, work: Callable[[float], None], until: float) -> None:
        try:
            work(until)
        except BaseException as error:
            self.failures.append(f"{work.__name__}: {type(error).__name__}: {error}")
            raise

    def victim(self) -> BrokerProcess:
        spared = (self._asleep, self._starting)
        there = [one for one in self.cluster.brokers if one.is_running and one not in spared]
        return self.random.choice(there)

    def rest(self, low: float, high: float) -> None:
        time.sleep(self.random.uniform(low, high))  # sleep: how long a fault lasts

    # -- one after the other -------------------------------------------------------------------------

    def kill(self) -> None:
        with self._turn:
            broker = self._starting = self.victim()
            self.cluster.kill(broker)
        self.rest(0, 3)
        broker.start()
        self._starting = None

    def drain(self) -> None:
        """SIGTERM: its shards move to the others, and it ends in good order."""
        with self._turn:
            broker = self._starting = self.victim()
            broker.stop()
        self.rest(0, 1)
        broker.start()
        self._starting = None

    def kill_process(self) -> None:
        """Of one shard."""
        pids = self.cluster.pids(self.victim())[2:]
        if pids:
            self._signal([self.random.choice(pids)], signal.SIGKILL)

    def move(self) -> None:
        """A shard, to a broker of the nemesis's choice; refused if that has it, or is not well."""
        name = self.random.choice(self.names).replace("://", "/")
        where = f"127.0.0.1:{self.victim().http_port}"
        path = f"/admin/v2/{name}/unload?destinationBroker={where}"
        with suppress(OSError, http.client.HTTPException):
            status, _ = self.victim().rest("PUT", path)
            self.done[f"move {status}"] += 1

    def pause(self) -> None:
        with self._turn:
            pids = self.cluster.pids(self.victim())
            self._signal(pids, signal.SIGSTOP)
            self.rest(1, 9)
            self._signal(pids, signal.SIGCONT)

    @staticmethod
    def _signal(pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def cut(self) -> None:
        """One broker from the store."""
        proxy = self.random.choice(self.proxies)
        proxy.is_cut.set()
        self.rest(1, 9)
        proxy.is_cut.clear()

    def storm(self) -> None:
        for proxy in self.proxies:
            proxy.weather = Weather(
                latency_s=self.random.choice((0.0, 0.02, 0.2)),
                refused=self.random.choice((0.0, 0.1, 0.3)),
                lost=self.random.choice((0.05, 0.2)),
            )
        self.rest(2, 8)
        for proxy in self.proxies:
            proxy.weather = FINE

    # -- beside them ---------------------------------------------------------------------------------

    def _sleep_long(self, until: float) -> None:
        """One broker sleeps for 30 seconds, with all its processes, and goes on."""
        room = max(until - time.monotonic() - LONG_PAUSE_S, 0.0)
        self.rest(0, room / 2)
        with self._turn:
            self._asleep = self.victim()
            pids = self.cluster.pids(self._asleep)
            self._signal(pids, signal.SIGSTOP)
        time.sleep(min(LONG_PAUSE_S, max(until - time.monotonic(), 1.0)))  # sleep: the pause
        self._signal(pids, signal.SIGCONT)
        self._asleep = None
        self.done["long pause"] += 1

    def _cut_pairs(self, until: float) -> None:
        """Every pair of brokers in turn, both ways or one way, by silence or by refusal."""
        names = [str(number) for number in range(len(self.cluster.brokers))]
        pairs = list(itertools.combinations(names, 2))
        self.random.shuffle(pairs)
        for one, other in itertools.cycle(pairs):
            self.rest(0, 3)
            ways = self.random.choice(
                (((one, other), (other, one)), ((one, other),), ((other, one),))
            )
            is_refused = self.random.random() < 0.3
            with self.cuts.refused(*ways) if is_refused else self.cuts.silent(*ways):
                self.rest(0.5, 2) if is_refused else self.rest(2, 8)
            self.done[f"cut {one}-{other}"] += 1
            if time.monotonic() >= until and all(self.done[f"cut {a}-{b}"] for a, b in pairs):
                return
