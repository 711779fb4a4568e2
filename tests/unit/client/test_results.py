"""Results have the official package's numbers, and every error has one."""

from __future__ import annotations

import pytest

from milepost import errors
from milepost.client.results import Result, result_of


def test_the_numbers_are_the_official_packages() -> None:
    pulsar = pytest.importorskip("pulsar")
    theirs = {name: int(value) for name, value in pulsar.Result.__members__.items()}
    assert {result.name: int(result) for result in Result} == theirs


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (None, Result.Ok),
        (errors.Timeout("x"), Result.Timeout),
        (errors.DiskFull("x"), Result.BrokerPersistenceError),
        (errors.TopicNotFound("x"), Result.TopicNotFound),
        (errors.StaleEpoch("x"), Result.NotAllowedError),
        (errors.InvalidMessageId("x"), Result.InvalidConfiguration),
        (errors.TransactionConflict("x"), Result.TransactionConflict),
        (errors.TransactionNotFound("x"), Result.TransactionNotFound),
        (errors.TransactionTimedOut("x"), Result.InvalidTxnStatusError),
        (
            errors.TransactionCoordinatorNotFound("x"),
            Result.TransactionCoordinatorNotFoundError,
        ),
        (KeyError("x"), Result.UnknownError),
    ],
)
def test_an_error_has_a_result(error: Exception | None, result: Result) -> None:
    assert result_of(error) is result
