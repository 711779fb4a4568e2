"""What differs is named by index, wherever batches are cut."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from unit.spark.pipelines.conftest import row

from milepost.spark.pipelines.comparison import differences
from milepost.spark.values.columns import Row, to_batch


def cut(rows: list[Row], random: Random) -> Iterator[pa.RecordBatch]:
    at = 0
    while at < len(rows):
        count = random.randint(0, 4)
        yield to_batch(rows[at : at + count])
        at += count


def found(archived: list[Row], live: list[Row], seed: int = 0) -> list[str]:
    random = Random(seed)
    return list(differences(cut(archived, random), cut(live, random)))


ROWS = [row(index) for index in (0, 1, 2, 5, 6, 9)]


@pytest.mark.parametrize("seed", range(30))
def test_differences_are_named(seed: int) -> None:
    assert found(ROWS, ROWS, seed) == []
    changed = [*ROWS[:3], row(5, value=b"other", key=None), *ROWS[4:]]
    assert found(changed, ROWS, seed) == ["message 5 differs in key, value"]
    assert found(ROWS[:2] + ROWS[3:], ROWS, seed) == ["message 2 is missing"]
    assert found(ROWS[:-1], ROWS, seed) == ["message 9 is missing"]
    assert found([], ROWS[:1], seed) == ["message 0 is missing"]
    assert found(ROWS, ROWS[:2] + ROWS[3:], seed) == ["message 2 is not in the topic"]
    assert found(ROWS, ROWS[:-1], seed) == ["message 9 is not in the topic"]
    twice = [*ROWS[:3], ROWS[2], *ROWS[3:]]
    assert found(twice, ROWS, seed) == ["message 2 is there twice, or out of order"]
    assert found([*ROWS, ROWS[0]], ROWS, seed) == ["message 0 is there twice, or out of order"]
    swapped = [ROWS[1], ROWS[0], *ROWS[2:]]
    assert found(swapped, ROWS, seed) == [
        "message 0 is missing",
        "message 0 is there twice, or out of order",
    ]


@pytest.mark.parametrize("seed", range(40))
def test_against_a_plain_comparison(seed: int) -> None:
    random = Random(seed)
    archived = {n: row(n) for n in range(12) if random.random() < 0.7}
    live = {n: row(n, value=random.choice([b"a", f"value {n}".encode()])) for n in range(12)}
    live = {n: one for n, one in live.items() if random.random() < 0.7}
    wanted = {
        *(f"message {n} is missing" for n in live if n not in archived),
        *(f"message {n} is not in the topic" for n in archived if n not in live),
        *(
            f"message {n} differs in value"
            for n in archived
            if n in live and live[n] != archived[n]
        ),
    }
    said = found(list(archived.values()), list(live.values()), seed)
    assert len(said) == len(set(said))
    assert set(said) == wanted
