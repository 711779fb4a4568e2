"""The catalog's changes as records: applied to an older image they give the same catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost.errors import AlreadyExists, CorruptData
from milepost.storage.bucket.catalog_changes import NotedCatalog
from milepost.storage.catalog.catalog import SchemaRow, Snapshot
from milepost.storage.ledgers.ledger import LedgerRow
from milepost.storage.ledgers.loss import Loss


def opened(path: Path, image: bytes | None = None) -> NotedCatalog:
    if image is not None:
        path.write_bytes(image)
    return NotedCatalog(path)


def content(catalog: NotedCatalog) -> list[list[tuple[object, ...]]]:
    tables = ("docs", "topics", "ledgers", "states", "tombstones", "schemas", "sqlite_sequence")
    return [catalog._db.execute(f"select * from {table}").fetchall() for table in tables]


def changes(catalog: NotedCatalog) -> list[bytes]:
    """Every kind of change, some in one transaction."""
    bodies: list[bytes | None] = []
    one = catalog.create_topic("one", {"a": 1})
    bodies.append(catalog.take_changes())
    with catalog.transaction():
        two = catalog.create_topic("two", {})
        catalog.set_topic(two.topic_id, {"b": [1, None]})
        state = catalog.create_state(two.topic_id, "cursor", "s", {"c": "ü"})
        catalog.put_snapshot(state.state_id, Snapshot(3, b"\0\xff", [b"", b"fact"]))
    bodies.append(catalog.take_changes())
    gone = catalog.create_state(one.topic_id, "cursor", "gone", {})
    catalog.put_snapshot(gone.state_id, Snapshot(-1, None, []))
    catalog.set_state(gone.state_id, {"d": 2})
    bodies.append(catalog.take_changes())
    catalog.delete_state(gone.state_id, 7)
    catalog.put_schema(SchemaRow("n", 0, 2, b"{}", {"k": "v"}, 5))
    catalog.put_schema(SchemaRow("n", 1, 0, None, {}, 6))
    catalog.erase_schemas("n", 1)
    bodies.append(catalog.take_changes())
    catalog.put_doc("f", "x", {"y": 1})
    catalog.put_doc("f", "z", {})
    catalog.delete_doc("f", "z")
    catalog.put_loss(two.topic_id, Loss(9, 1, 2, "why", 3))
    catalog.put_loss(one.topic_id, Loss(8, 1, 2, "why", 3))
    catalog.accept_losses(one.topic_id)
    catalog.delete_ledgers([4, 5], 11)
    catalog.delete_topic(one.topic_id, 12, [6])
    bodies.append(catalog.take_changes())
    return [body for body in bodies if body is not None]


def test_records_applied_to_an_older_image_give_the_same_catalog(tmp_path: Path) -> None:
    catalog = opened(tmp_path / "a")
    image = catalog.image()
    bodies = changes(catalog)
    assert len(bodies) == 5
    again = opened(tmp_path / "b", image)
    for body in bodies:
        again.apply(body)
    assert content(again) == content(catalog)
    assert again.take_changes() is None


def test_changes_that_an_image_holds_are_passed_over(tmp_path: Path) -> None:
    catalog = opened(tmp_path / "a")
    bodies = changes(catalog)
    again = opened(tmp_path / "b", catalog.image())
    before = content(again)
    for body in bodies:
        again.apply(body)
    assert content(again) == before


def test_a_change_that_failed_is_not_noted(tmp_path: Path) -> None:
    catalog = opened(tmp_path / "a")
    image = catalog.image()

    def fail() -> None:
        with catalog.transaction():
            catalog.put_doc("f", "lost", {})
            catalog.create_topic("kept", {})

    with catalog.transaction():
        catalog.create_topic("kept", {})
        with pytest.raises(AlreadyExists):
            fail()
    body = catalog.take_changes()
    assert body is not None
    assert [name for name, *_ in json.loads(body)["changes"]] == ["create_topic"]
    with pytest.raises(AlreadyExists):
        fail()
    assert catalog.take_changes() is None
    again = opened(tmp_path / "b", image)
    again.apply(body)
    assert content(again) == content(catalog)


def test_what_a_checkpoint_records_is_not_noted(tmp_path: Path) -> None:
    catalog = opened(tmp_path / "a")
    state = catalog.create_state(0, "k", "n", {})
    catalog.take_changes()
    with catalog.unnoted():
        catalog.put_ledgers([LedgerRow(1, 1, 0, 0)])
        catalog.put_snapshot(state.state_id, Snapshot(3, b"x", []))
    assert catalog.take_changes() is None
    assert catalog.count() == 1


def test_a_gap_is_damage(tmp_path: Path) -> None:
    catalog = opened(tmp_path / "a")
    image = catalog.image()
    bodies = changes(catalog)
    again = opened(tmp_path / "b", image)
    with pytest.raises(CorruptData, match="changes 1 to 1 are missing"):
        again.apply(bodies[1])


def test_another_number_for_a_row_is_damage(tmp_path: Path) -> None:
    catalog = opened(tmp_path / "a")
    catalog.create_topic("one", {})
    body = catalog.take_changes()
    assert body is not None
    again = opened(tmp_path / "b")
    doc = json.loads(body)
    doc["changes"][0][-1] = 2
    with pytest.raises(CorruptData, match="gave number 1, and it was 2"):
        again.apply(json.dumps(doc).encode())
