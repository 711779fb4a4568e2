"""The reasons why a connection was ended, as labels.

Each is the `reason` of a `ProtocolError`. A dashboard may rely on the texts.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    FRAME_SHORT = "frame_short"
    """A frame that says it is too small to hold the size of a command."""

    FRAME_TOO_LARGE = "frame_too_large"
    """A frame that says it is larger than anything the peer may send now."""

    BAD_COMMAND_SIZE = "bad_command_size"
    """The command is empty, does not fit its frame, or leaves bytes behind it unexplained."""

    BAD_COMMAND = "bad_command"
    """Not protobuf, a required field missing, text that is not UTF-8, or far too many parts."""

    UNKNOWN_COMMAND = "unknown_command"
    """A command type this release does not know."""

    UNKNOWN_VALUE = "unknown_value"
    """An unknown enum value in a command that has no answer to carry the refusal."""

    UNEXPECTED_COMMAND = "unexpected_command"
    """A command that only the other side may send."""

    NESTED_TOO_DEEP = "nested_too_deep"
    """A message id inside a first chunk's id (PIP-107 nests once)."""

    BEFORE_CONNECT = "before_connect"
    """A command before the handshake was complete."""

    SECOND_CONNECT = "second_connect"
    """CONNECT or CONNECTED on a connection that had its own already."""

    BAD_METADATA = "bad_metadata"
    """An entry whose metadata cannot be read."""

    BAD_BATCH = "bad_batch"
    """A batch payload that does not split into its messages."""
