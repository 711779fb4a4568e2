"""What is kept of subscriptions beside their cursors."""

from __future__ import annotations

from stage.stage import Stage

from milepost.broker.subscription import documents


def test_what_is_saved_is_there_after_a_restart_and_what_is_gone_stays_gone(stage: Stage) -> None:
    topic = stage.topic()
    kept, gone = stage.subscription(topic, "kept"), stage.subscription(topic, "gone")
    kept.is_replicated, kept.idle_ms = True, 7
    gone.is_replicated = True
    stage.run(stage.broker.delete_subscription(gone))
    stage.run(documents.save(stage.engine, [kept, gone]))
    (found,) = stage.restarted().topic().subscriptions.values()
    assert (found.name, found.is_replicated, found.idle_ms) == ("kept", True, 7)
