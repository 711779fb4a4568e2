"""Members of a broadcast group that come, go, ack, are reset and forgotten, with kills in between, by a seed.

The judge keeps for each member what it has acked, and nothing else. A member is never shown what it has
acked; the group is never ahead of a member that it remembers; a stranger starts where the group was; and at
the end each member gets exactly what it has not acked: promise 7.
"""

from __future__ import annotations

from random import Random

import pytest
from stage.counts import campaign_count
from stage.frames import message
from stage.overview import overview
from stage.stage import Stage
from stage.talk import SHARED

from milepost.broker.operations.broadcast_members import forget
from milepost.broker.operations.reset import Reset, Target, reset
from milepost.broker.subscription.broadcast import BroadcastGroup
from rip.player import KINDS, Player, indexes_shown
from rip.race import PLAYERS_MAX
from rip.test_rip_reset import NAME

SEEDS = campaign_count("MILEPOST_RACES", 600, 20_000) // 10
STEPS = 30
NAMES = "abcde"
VERBS = {
    "publish": 4, "come": 4, "leave": 2, "ack": 6, "reset": 1, "kill": 1, "tick": 1, "forget": 1,
    "checkpoint": 1, "look": 2,
}  # fmt: skip


class Member:
    def __init__(self, start: int) -> None:
        self.acked = set(range(start))

    @property
    def lowest(self) -> int:
        """Where it is at the least."""
        index = 0
        while index in self.acked:
            index += 1
        return index


class BroadcastRace:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage()
        self.members: dict[str, Member] = {}
        self.players: dict[str, Player] = {}
        self.published = 0
        self.stage.producer(self.stage.topic())

    @property
    def group(self) -> BroadcastGroup | None:
        found = self.stage.topic().subscriptions.get("g")
        assert found is None or isinstance(found, BroadcastGroup)
        return found

    def run(self) -> None:
        for _ in range(STEPS):
            getattr(self, self.random.choices(list(VERBS), list(VERBS.values()))[0])()
            self._happen()
            self.check()
        self.drain()

    # -- steps -------------------------------------------------------------------------------------

    def publish(self) -> None:
        producer = self.stage.topic().producers["p"]
        count = self.random.randint(1, 3)
        frames = [message(self.published + number) for number in range(count)]
        self.published += count
        self.stage.publish(producer, *frames)

    def come(self) -> None:
        name = self.random.choice(NAMES)
        if name in self.players or len(self.players) >= PLAYERS_MAX:
            return
        if name not in self.members:
            # A stranger starts at the minimum; the very first one at the beginning.
            start = 0 if self.group is None else self.group.position
            lowest = min((member.lowest for member in self.members.values()), default=start)
            assert start == lowest, "a stranger starts elsewhere"
            self.members[name] = Member(start)
        player = Player(
            self.stage, name, self.random.choice(KINDS), SHARED, subscription="g", member=name
        )
        player.join()
        self.players[name] = player

    def leave(self) -> None:
        if self.players:
            name = self.random.choice(list(self.players))
            self.players.pop(name).leave()

    def ack(self) -> None:
        for name, player in self.players.items():
            if player.inbox and self.random.random() < 0.7:
                delivery = self.random.choice(player.inbox)
                player.ack(delivery)
                self.stage.turn()
                self.members[name].acked |= self._indexes(delivery)

    def reset(self) -> None:
        if self.group is None:
            return
        index = self.random.randint(0, self.published)
        self.stage.run(reset(self.stage.broker, NAME, "g", Reset(Target(index=index)), by="race"))
        for member in self.members.values():
            member.acked = set(range(index))

    def kill(self) -> None:
        self.stage = self.stage.restarted(checkpoint=self.random.random() < 0.3)
        self.players.clear()
        self.stage.producer(self.stage.topic())

    def tick(self) -> None:
        self.stage.tick(self.random.randint(1, 3))

    def checkpoint(self) -> None:
        self.stage.checkpoint()

    def forget(self) -> None:
        """What happens to a member that left long ago."""
        away = [name for name in self.members if name not in self.players]
        if away and self.group is not None and len(self.members) > 1:
            name = self.random.choice(away)
            self.stage.run(forget(self.stage.broker, self.group.members[name]))
            del self.members[name]

    def look(self) -> None:
        for line in self.stage.run(overview(self.stage.broker, [NAME], "g")):
            assert line.ready + line.inflight + line.delayed + line.acked == line.end - line.first
            if line.member:
                assert line.acked >= len(self.members[line.member].acked)

    # -- judging -----------------------------------------------------------------------------------

    def _indexes(self, delivery: object) -> set[int]:
        position = (delivery.ledger_id, delivery.entry_id)  # type: ignore[attr-defined]
        first = self.stage.here(lambda: self.stage.topic().lookup(*position))[0]
        return {first + number for number in indexes_shown(delivery)}  # type: ignore[arg-type]

    def _happen(self) -> None:
        for turn in range(6):  # joining, and what follows from that, until it is quiet
            self.stage.turn()
            for name, player in self.players.items():
                player.listen()
                for _, delivery in player.accepted:
                    shown = self._indexes(delivery)
                    assert not shown & self.members[name].acked, f"{player}: {shown} was acked"
                player.accepted.clear()
                if turn < 2:
                    player.join()

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        assert set(group.members) == set(self.members)
        for name, member in self.members.items():
            cursor = group.members[name].cursor
            backlog = cursor.backlog_ranges()
            acked = {index for index in range(cursor.end) if index not in backlog}
            assert acked == member.acked, (name, sorted(acked), sorted(member.acked))
            assert group.cursor.mark_delete_index < member.lowest, "the group is ahead of a member"
        lowest = min((member.lowest for member in self.members.values()), default=group.position)
        assert group.position == lowest

    def drain(self) -> None:
        for player in self.players.values():
            player.leave()
        self.stage.turn()
        for name, member in self.members.items():
            last = Player(
                self.stage, name, KINDS[0], SHARED, subscription="g", member=name, permits=999
            )
            last.settle()
            shown = [index for one in last.inbox for index in self._indexes(one)]
            assert sorted(shown) == sorted(set(range(self.published)) - member.acked), name
            last.leave()


@pytest.mark.parametrize("block", range(4))
def test_no_member_loses_anything(block: int) -> None:
    for seed in range(block, SEEDS, 4):
        race = BroadcastRace(seed)
        try:
            race.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        finally:
            race.stage.close()


def test_a_group_that_runs_ahead_of_its_slowest_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(group: BroadcastGroup) -> None:
        group.catch_up()
        highest = max((member.position for member in group.members.values()), default=0)
        if highest > group.cursor.mark_delete_index + 1:
            super(BroadcastGroup, group).pass_over([(group.cursor.mark_delete_index + 1, highest)])

    monkeypatch.setattr(BroadcastGroup, "settle", settle)
    with pytest.raises(AssertionError):
        test_no_member_loses_anything(0)
