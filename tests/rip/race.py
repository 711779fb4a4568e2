"""Resets against everything else, by a seed, judged by who was shown what and told what.

The judge knows no cursor. It keeps, for each reset, which messages were shown since, which were acked, and
which acks were answered, and asserts after every step

- that what is acked is exactly what was acked of messages shown since the last reset, or lies below its
  target: no ack, flow or read of an older epoch moved anything (promise 3);
- that nobody is shown what is acked;
- that the four numbers add up (promise 4; the stage checks that after every turn);
- after a kill, that no answered reset and no answered ack is gone, and nothing was made up.

What it cannot know it leaves open: a message that was sent to somebody who had not read it yet.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from stage.frames import batch, message
from stage.stage import TOPIC, Stage

from milepost.broker.monitoring.progress import progress_of
from milepost.broker.operations.reset import Move, Reset, Target, reset
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from rip.player import KINDS, Player, indexes_shown

STEPS = 24
PLAYERS_MAX = 3
TYPES = (
    pb.CommandSubscribe.Exclusive,
    pb.CommandSubscribe.Shared,
    pb.CommandSubscribe.Failover,
    pb.CommandSubscribe.Key_Shared,
)
VERBS = {
    "publish": 3, "flow": 2, "ack": 4, "ack_all": 1, "late_ack": 4, "redeliver": 1, "reset": 4, "leave": 1,
    "come": 2, "hold_reads": 1, "release_reads": 2, "hold_journal": 2, "release_journal": 2,
    "slow": 1, "quick": 2, "checkpoint": 1, "kill": 1,
}  # fmt: skip


class Epoch:
    """What is known since one reset."""

    def __init__(self, target: int) -> None:
        self.acked = set(range(target))
        """As it should be now."""
        self.sure = set(range(target))
        """Of that, what was answered."""
        self.shown: set[int] = set()
        self.ghosts: set[int] = set()
        """Sent, and perhaps never read."""


class Race:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sub_type = self.random.choice(TYPES)
        self.stage = Stage(tail_size=self.random.choice((0, 1 << 20)))
        self.players: list[Player] = []
        self.retired: list[Player] = []
        self.epochs = [Epoch(0)]
        self.answered_epoch = 0
        self.resets: list[tuple[int, asyncio.Task[list[Move]]]] = []
        """(epoch that it began, its answer) of those not answered yet."""
        self.waiting: dict[int, tuple[int, set[int]]] = {}
        """Acks that are not answered yet: request → (epoch, indexes)."""
        self.base: dict[Player, int] = {}
        """The epoch in which a player's current life began."""
        self.published = 0
        self.trail: list[str] = []
        self._open()

    def _open(self) -> None:
        self.topic = self.stage.topic()
        self.subscription = self.stage.subscription(self.topic)
        self.producer = self.stage.producer(self.topic)

    def close(self) -> None:
        for _, task in self.resets:
            task.cancel()
        self.stage.close()

    # -- steps -------------------------------------------------------------------------------------

    def run(self) -> None:
        verbs, weights = list(VERBS), list(VERBS.values())
        self.publish()
        self.come()
        for _ in range(STEPS):
            verb = self.random.choices(verbs, weights)[0]
            self.trail.append(verb)
            getattr(self, verb)()
            self._happen()
            self.check()
        self.trail.append("end")
        self.stage.engine.holds_journal = self.stage.engine.holds_reads = False
        self.quick()
        self._happen()
        self.check()
        assert not self.resets, "a reset was never answered"
        self.drain()

    def publish(self) -> None:
        if self.stage.engine.holds_journal:
            return
        for _ in range(self.random.randint(1, 3)):
            number = self.published
            self.published += 1
            key = f"k{number % 3}"
            frame = (
                batch(number, self.random.randint(2, 4), partition_key=key)
                if self.random.random() < 0.4
                else message(number, partition_key=key)
            )
            self.stage.publish(self.producer, frame)
        self.producer.peer.take()  # type: ignore[attr-defined]

    def come(self) -> None:
        if len(self.players) < PLAYERS_MAX:
            name = f"p{len(self.players) + len(self.retired)}"
            kind = self.random.choice(KINDS)
            self.players.append(
                Player(self.stage, name, kind, self.sub_type, permits=self.random.randint(1, 12))
            )

    def flow(self) -> None:
        for player in self._somebody():
            player.flow(self.random.randint(1, 5))

    def ack(self) -> None:
        for player in self._somebody():
            if player.inbox:
                self._ack(player, self.random.choice(player.inbox))

    def ack_all(self) -> None:
        """Cumulatively, where that means something."""
        cumulative = self.sub_type in (TYPES[0], TYPES[2])
        for player in self._somebody():
            if player.inbox:
                self._ack(player, player.inbox[-1], cumulative=cumulative)

    def late_ack(self) -> None:
        """Of anything that this client, or one before it, was ever shown."""
        for player in self._somebody():
            ever = [one for other in [*self.retired, *self.players] for one in other.ever]
            if ever:
                cumulative = self.sub_type in (TYPES[0], TYPES[2]) and self.random.random() < 0.5
                self._ack(player, self.random.choice(ever), cumulative=cumulative)

    def redeliver(self) -> None:
        for player in self._somebody():
            player.client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
            player.inbox.clear()

    def reset(self) -> None:
        end = self.topic.log.end_index
        asked = Reset(Target(index=self.random.randint(0, end)))
        name = TopicName.parse(TOPIC)
        before = self.subscription.cursor.epoch
        task = self.stage.loop.begin(reset(self.stage.broker, name, "s", asked, by="race"))
        self.stage.loop.turn()
        while self.subscription.cursor.epoch == before and self.stage.engine.release_read():
            self.stage.loop.turn()  # behind a start, where the target lies comes from the disk
        assert self.subscription.cursor.epoch == before + 1, "a reset waits with its deed"
        assert asked.target.index is not None
        self.epochs.append(Epoch(asked.target.index))
        self.resets.append((len(self.epochs) - 1, task))

    def leave(self) -> None:
        for player in self._somebody():
            self._note_ghosts(player)
            player.leave()
            self.players.remove(player)
            self.retired.append(player)

    def slow(self) -> None:
        for player in self._somebody():
            player.client.reads = False

    def quick(self) -> None:
        """Whoever was slow reads what has come; it may have been acked by another since it was sent."""
        for player in self.players:
            player.client.reads = True
        self._listen(lenient=True)

    def hold_reads(self) -> None:
        self.stage.engine.holds_reads = True

    def release_reads(self) -> None:
        self.stage.engine.holds_reads = False

    def hold_journal(self) -> None:
        self.stage.engine.holds_journal = True

    def release_journal(self) -> None:
        self.stage.engine.holds_journal = False

    def checkpoint(self) -> None:
        if not self.stage.engine.holds_journal:
            self.stage.checkpoint()

    def kill(self) -> None:
        """The process is gone, with whatever was not on disk."""
        self._listen()
        for player in self.players:
            self._note_ghosts(player)
        for _, task in self.resets:
            task.cancel()
        self.resets.clear()
        self.waiting.clear()
        self.stage = self.stage.restarted()
        self.retired += self.players
        self.players.clear()
        self.base.clear()
        self._open()
        self._judge_recovered()

    # -- judging -----------------------------------------------------------------------------------

    @property
    def now(self) -> Epoch:
        return self.epochs[-1]

    def _happen(self) -> None:
        """Everything that can; clients that were closed come back, most of them at once."""
        self.stage.turn()
        self._listen()
        for player in self.players:
            if self.random.random() < 0.8:
                player.join()
        self.stage.turn()
        self._listen()

    def _listen(self, *, lenient: bool = False) -> None:
        for player in self.players:
            was_joined, life = player.is_joined, player.life
            began = self.base.get(player, len(self.epochs) - 1)
            player.listen()
            for of_life, delivery in player.accepted:
                # Each SEEK, and each close, ended the life of one epoch; a SUCCESS begins with the
                # newest there is.
                epoch = min(began + of_life - life, len(self.epochs) - 1)
                if not was_joined:
                    epoch = len(self.epochs) - 1
                self._shown(player, delivery, epoch, lenient=lenient)
            player.accepted.clear()
            if player.is_joined and not was_joined:
                self.base[player] = len(self.epochs) - 1
            elif player.life != life:
                self.base[player] = min(began + player.life - life, len(self.epochs) - 1)
            for request_id in player.answered:
                epoch, indexes = self.waiting.pop(request_id, (-1, set()))
                if epoch >= 0:
                    self.epochs[epoch].sure |= indexes
            player.answered.clear()
        for began, task in list(self.resets):
            if task.done():
                (move,) = task.result()
                assert move.epoch == self._cursor_epoch(began), (move, began)
                self.answered_epoch = max(self.answered_epoch, began)
                self.resets.remove((began, task))

    def _cursor_epoch(self, epoch: int) -> int:
        return epoch - len(self.epochs) + 1 + self.subscription.cursor.epoch

    def _lookup(self, delivery: Delivery) -> tuple[int, int, int]:
        position = (delivery.ledger_id, delivery.entry_id)
        return self.stage.here(lambda: self.topic.lookup(*position))

    def _shown(self, player: Player, delivery: Delivery, epoch: int, *, lenient: bool) -> None:
        first = self._lookup(delivery)[0]
        shown = {first + number for number in indexes_shown(delivery)}
        self.epochs[epoch].shown |= shown
        if epoch == len(self.epochs) - 1:
            again = shown & self.now.acked
            assert lenient or not again, f"{player} was shown {sorted(again)}, acked"

    def _ack(self, player: Player, delivery: Delivery, *, cumulative: bool = False) -> None:
        first, end, _ = self._lookup(delivery)
        ghosts = self._ghosts()
        consumer = player.client.session.consumers.get(0)
        # Sent by who does not know yet that it was reset: late, whoever was shown the message since.
        is_late = consumer is not None and consumer.owes_echo is not None
        request_id = player.ack(delivery, cumulative=cumulative)
        if not player.is_joined:
            self.stage.loop.turn()
        session = player.client.session
        while session.protocol.has_more and not session.is_closed:
            # Requests that came before it are heard a few at a time, with rests that no timer ends here.
            self.stage.loop.do(session._go_on)
            self.stage.loop.turn()
        if not self._has_consumer(player):
            return
        now = self.now
        if cumulative:
            judged_by = {end - 1}
            covered = set(range(end))
        else:
            judged_by = covered = set(range(first, end))
        counts = judged_by & (now.shown | (now.acked if cumulative else set()))
        unsure = judged_by & ghosts - counts
        if is_late:
            counts, unsure = set(), set()
        if cumulative:
            certain = covered if counts else set()
            possible = covered if unsure else certain
        else:
            certain, possible = counts, counts | unsure
        acked = self._acked()
        new = acked - now.acked
        assert new <= possible - now.acked, f"{sorted(new)} acked by an ack of older messages"
        assert certain <= acked, f"{sorted(certain - acked)} not acked"
        now.acked |= new | certain
        self.waiting[request_id] = (len(self.epochs) - 1, new | certain)

    def _has_consumer(self, player: Player) -> bool:
        return 0 in player.client.session.consumers

    def _ghosts(self) -> set[int]:
        found = set(self.now.ghosts)
        for player in self.players:
            found |= self._unread(player)
        return found

    def _unread(self, player: Player) -> set[int]:
        consumer = player.client.session.consumers.get(0)
        if player.client.reads or consumer is None:
            return set()
        held = self.subscription.cursor.inflight_of(consumer.holder)
        return {index for first, end in held for index in range(first, end)}

    def _note_ghosts(self, player: Player) -> None:
        self.now.ghosts |= self._unread(player) - self.now.shown

    def _acked(self) -> set[int]:
        cursor = self.subscription.cursor
        backlog = cursor.backlog_ranges()
        return {index for index in range(cursor.end) if index not in backlog}

    def check(self) -> None:
        assert self._acked() == self.now.acked, (
            f"acked {sorted(self._acked())}, should be {sorted(self.now.acked)}"
        )
        now_ms = self.stage.clock.wall_ms()
        line = self.stage.here(lambda: progress_of(self.subscription, now_ms))
        assert line.ready + line.inflight + line.delayed + line.acked == line.end - line.first
        assert line.acked == len(self.now.acked)
        assert sum(consumer.inflight for consumer in line.consumers) == line.inflight

    def _judge_recovered(self) -> None:
        """Resets that were not answered may be gone, from the last one back; no other."""
        lost = len(self.epochs) - 1 - self._recovered_epochs()
        assert lost >= 0, "an epoch that nobody began"
        if lost:
            del self.epochs[-lost:]
        assert len(self.epochs) - 1 >= self.answered_epoch, "an answered reset is gone"
        acked, now = self._acked(), self.now
        assert now.sure <= acked, f"answered acks of {sorted(now.sure - acked)} are gone"
        assert acked <= now.acked, f"{sorted(acked - now.acked)} were never acked"
        now.acked, now.sure = set(acked), set(acked)
        assert self.subscription.cursor.counts().inflight == 0

    def _recovered_epochs(self) -> int:
        return self.subscription.cursor.epoch

    def drain(self) -> None:
        """A last client gets exactly what is left."""
        for player in self.players:
            player.leave()
        self.stage.turn()
        last = Player(self.stage, "last", KINDS[0], self.sub_type, permits=1000)
        last.settle()
        shown: set[int] = set()
        for delivery in last.inbox:
            first = self._lookup(delivery)[0]
            numbers = {first + number for number in indexes_shown(delivery)}
            assert not numbers & shown, "shown twice"
            shown |= numbers
        left = set(range(self.topic.log.end_index)) - self.now.acked
        assert shown == left, f"left are {sorted(left)}, shown {sorted(shown)}"

    def _somebody(self) -> list[Player]:
        joined = [player for player in self.players if player.is_joined]
        return [self.random.choice(joined)] if joined else []


def run_seed(seed: int) -> None:
    """One race; an error names its seed and the way there."""
    race = Race(seed)
    try:
        race.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r} behind {' '.join(race.trail)}") from error
    finally:
        race.close()


def first_caught(seeds: Any) -> int | None:
    """The first seed that goes wrong; None if none does."""
    for seed in seeds:
        try:
            run_seed(seed)
        except AssertionError:
            return int(seed)
    return None
