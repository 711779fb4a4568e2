"""A broker's codes become errors of ours."""

from __future__ import annotations

import pytest

from milepost import errors, exceptions
from milepost.client.connection.refusals import refusal, refusal_of
from milepost.client.results import Result, result_of
from milepost.wire import pulsar_pb2 as pb


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (5, errors.ConsumerBusy),
        (11, errors.TopicNotFound),
        (16, errors.ProducerBusy),
        (25, errors.ProducerFenced),
        (22, errors.NotAllowed),
        (2, errors.PersistenceError),
        (20, errors.TransactionCoordinatorNotFound),
        (21, errors.InvalidTransactionStatus),
        (23, errors.TransactionConflict),
        (24, errors.TransactionNotFound),
    ],
)
def test_a_code_has_its_class(code: int, kind: type[errors.MilepostError]) -> None:
    found = refusal(code, "because")
    assert type(found) is kind
    assert str(found) == "because"


@pytest.mark.parametrize("text", ["Encryption is required in x", "encryption is required in x"])
def test_encryption_that_is_required_is_an_error_of_its_own(text: str) -> None:
    """Apache Pulsar 4.2.4 and Milepost both say MetadataError, and these words."""
    found = refusal(1, text)
    assert type(found) is errors.EncryptionRequired
    assert isinstance(found, exceptions.BrokerMetadataError), (
        "as users of the official package expect"
    )
    assert result_of(found) is Result.BrokerMetadataError
    assert not isinstance(found, errors.NotFound)
    assert type(refusal(1, "no such thing")) is errors.NotFound


def test_an_unknown_code_is_kept() -> None:
    found = refusal(999, "because")
    assert isinstance(found, errors.BrokerError)
    assert (found.code, str(found)) == (999, "because")


def test_each_answer_has_its_own_field_for_it() -> None:
    for answer in (
        pb.CommandError(request_id=1, error=pb.ConsumerBusy, message="because"),
        pb.CommandAckResponse(consumer_id=1, error=pb.ConsumerBusy, message="because"),
        pb.CommandGetSchemaResponse(
            request_id=1, error_code=pb.ConsumerBusy, error_message="because"
        ),
    ):
        found = refusal_of(answer)
        assert isinstance(found, errors.ConsumerBusy)
        assert str(found) == "because"
    assert refusal_of(pb.CommandSuccess(request_id=1)) is None
    assert refusal_of(pb.CommandAckResponse(consumer_id=1)) is None
