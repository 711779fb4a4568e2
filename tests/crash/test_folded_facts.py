"""A snapshot may know more than the journal; the next start must not number facts as if it did not.

A checkpoint takes its snapshots when the journal has rolled. Facts submitted since are part of them,
and a crash between the checkpoint's transaction and the next group commit leaves a snapshot that
holds sequences the journal never saw.
"""

from __future__ import annotations

from milepost.errors import PersistenceError
from milepost.storage.catalog.catalog import Snapshot
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.checkpoint import Checkpoint
from milepost.storage.store import Store
from milepost.testing.clock import ManualClock
from milepost.testing.files import MemoryFiles


def test_a_fact_behind_a_snapshot_that_outran_the_journal_is_kept() -> None:
    files = MemoryFiles()
    store = Store(files, SqliteCatalog(None), ManualClock())
    topic = store.catalog.create_topic("persistent://public/default/t", {})
    state_id = store.catalog.create_state(topic.topic_id, "cursor", "s", {}).state_id
    facts: list[bytes] = []
    answers: list[PersistenceError | None] = []
    store.open_state(state_id, lambda: b"".join(facts))

    def happen(fact: bytes) -> None:
        facts.append(fact)
        store.fact(state_id, fact, answers.append)

    happen(b"A")
    plans: list[Checkpoint | PersistenceError] = []
    store.begin_checkpoint(plans.append)
    happen(b"B")
    store.journal.finish(store.journal.commit())  # A and the roll; B still waits
    (plan,) = plans
    assert isinstance(plan, Checkpoint)
    plan.flush(files)
    plan.record(store.catalog)
    assert answers == [None], "B is not answered"

    # The crash comes here: B is in the snapshot and nowhere else.
    store = Store(files, SqliteCatalog(None, image=store.catalog.image()), ManualClock())
    assert store.open_state(state_id, lambda: b"".join(facts)).data == b"AB"
    happen(b"C")
    store.pump()
    assert answers == [None, None], "C is answered"

    store = Store(files, SqliteCatalog(None, image=store.catalog.image()), ManualClock())
    found = store.open_state(state_id, lambda: b"")
    assert found == Snapshot(found.sequence, b"AB", [b"C"])
