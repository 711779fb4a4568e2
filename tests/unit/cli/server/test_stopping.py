"""A signal is heard and waited for; a second one is not."""

from __future__ import annotations

import signal

import pytest

from milepost.cli.server.stopping import SIGNALS, stopping


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_sets_the_event_and_the_second_interrupts(number: int) -> None:
    before = [signal.getsignal(one) for one in SIGNALS]
    with stopping() as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert [signal.getsignal(one) for one in SIGNALS] == before
