"""A broker's error codes to exceptions.

>>> refusal(5, "Exclusive consumer is already connected")
ConsumerBusy('Exclusive consumer is already connected')
"""

from __future__ import annotations

from typing import Any, Final

from milepost import errors
from milepost.errors import BrokerError, MilepostError

# By Pulsar's ServerError. A code that is not here becomes a BrokerError that carries it.
_CLASSES: Final[dict[int, type[MilepostError]]] = {
    1: errors.NotFound,  # MetadataError: unknown consumers, namespaces, subscriptions in use
    2: errors.PersistenceError,
    4: errors.NotAuthorized,
    5: errors.ConsumerBusy,
    6: errors.ServiceNotReady,
    11: errors.TopicNotFound,
    12: errors.SubscriptionNotFound,
    14: errors.TooManyRequests,
    15: errors.TopicTerminated,
    16: errors.ProducerBusy,
    17: errors.InvalidTopicName,
    18: errors.IncompatibleSchema,
    19: errors.ConsumerAssignError,
    20: errors.TransactionCoordinatorNotFound,
    21: errors.InvalidTransactionStatus,
    22: errors.NotAllowed,
    23: errors.TransactionConflict,
    24: errors.TransactionNotFound,
    25: errors.ProducerFenced,
}

_ENCRYPTION: Final = "encryption is required"

# Worth another attempt, as long as the operation's time is not up.
RETRIED: Final = (
    errors.ConnectError,
    errors.ServiceNotReady,
    errors.TooManyRequests,
    errors.PersistenceError,
)
# The same for a producer that was attached once: what is asked of it may be taken back.
RETRIED_LATER: Final = (errors.EncryptionRequired,)


def refusal(code: int, text: str) -> MilepostError:
    """The exception for a code and what the broker says of it."""
    if code == errors.NotAuthenticated.wire_code:
        return errors.NotAuthenticated("refused", text)
    if code == errors.EncryptionRequired.wire_code and _ENCRYPTION in text.lower():
        # The code is that of many things; of this one the words are the same in Apache Pulsar.
        return errors.EncryptionRequired(text)
    found = _CLASSES.get(code)
    return BrokerError(text, code) if found is None else found(text)


def refusal_of(answer: Any) -> MilepostError | None:
    """The refusal that an answer carries in whichever field its type has for it; None if it is none."""
    fields = answer.DESCRIPTOR.fields_by_name
    for code_field, text_field in (("error", "message"), ("error_code", "error_message")):
        if code_field in fields and answer.HasField(code_field):
            return refusal(getattr(answer, code_field), getattr(answer, text_field))
    return None
