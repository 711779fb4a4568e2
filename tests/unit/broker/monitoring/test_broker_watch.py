"""One survey for all who look: how long it is good enough, and what is shown while a new one is made."""

from __future__ import annotations

from stage.stage import Stage

from milepost.broker.monitoring import broker_watch
from milepost.broker.monitoring.broker_watch import BrokerWatch, Survey


def test_a_survey_that_took_long_is_good_for_longer() -> None:
    survey = Survey(10_000, began_s=0.0, at_ms=0)
    assert survey.fresh_s == broker_watch.FRESH_S
    survey.took_s = 3.0
    assert survey.fresh_s == 60.0


def test_all_who_look_at_once_get_one_survey(stage: Stage) -> None:
    watch = BrokerWatch(stage.broker)
    stage.subscription(stage.topic(), "s")
    first = stage.run(watch.look())
    assert (first.is_complete, first.subscriptions) == (True, 1)
    assert stage.run(watch.look()) is first
    stage.tick(broker_watch.FRESH_S)
    again = stage.run(watch.look())
    assert again is not first
    assert not watch._running


def test_what_is_remembered_is_bounded(stage: Stage) -> None:
    watch = BrokerWatch(stage.broker)
    names = [f"public/n{number}" for number in range(broker_watch.SURVEYS_MAX + 3)]
    for name in names:
        stage.run(watch.look(name))
    assert list(watch._done) == names[3:]
