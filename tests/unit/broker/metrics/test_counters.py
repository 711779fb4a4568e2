"""Counters: plain numbers, each with a meaning and a name of its own."""

from __future__ import annotations

import dataclasses

from milepost.broker.metrics.counters import Counters


def test_numbers_grow_from_zero() -> None:
    counters = Counters()
    counters.messages_in += 3
    counters.frames_refused["frame_too_large"] += 1
    counters.frames_refused["frame_too_large"] += 1
    assert counters.messages_in == 3
    assert counters.frames_refused == {"frame_too_large": 2}


def test_asking_leaves_no_trace() -> None:
    counters = Counters()
    assert counters.connections_closed["peer"] == 0
    assert not counters.connections_closed


def test_two_brokers_do_not_share_reasons() -> None:
    one, other = Counters(), Counters()
    one.acks_refused["unknown"] += 1
    assert not other.acks_refused


def test_every_counter_says_what_it_means() -> None:
    for field in dataclasses.fields(Counters):
        assert field.metadata["doc"].endswith("."), field.name
