"""Producers that are too fast are not read for a while."""

from __future__ import annotations

from stage.stage import Stage

from milepost.broker.limits.publish_rate import PublishThrottle
from milepost.broker.policies.effective import Rate
from milepost.testing.peer import RecordingPeer


def make(stage: Stage, messages: int) -> PublishThrottle:
    return stage.loop.do(lambda: PublishThrottle(Rate(messages, 0), stage.clock.monotonic))


def test_whoever_is_too_fast_is_held_until_its_time(stage: Stage) -> None:
    throttle, peer, other = make(stage, 10), RecordingPeer(), RecordingPeer()
    throttle.published(peer, 5, 100)
    assert peer.holds == 0
    throttle.published(peer, 15, 100)
    throttle.published(peer, 1, 100)  # what was read before it was held
    throttle.published(other, 1, 1)
    assert (peer.holds, other.holds) == (1, 1)
    stage.clock.advance(0.5)
    throttle.look()
    assert (peer.holds, other.holds) == (1, 1)
    stage.clock.advance(1)
    throttle.look()
    assert (peer.holds, other.holds) == (0, 0)


def test_without_the_policy_everybody_is_read(stage: Stage) -> None:
    throttle, peer = make(stage, 1), RecordingPeer()
    throttle.published(peer, 1000, 1)
    assert peer.holds == 1
    throttle.end()
    assert peer.holds == 0
    throttle.look()
    assert peer.holds == 0
