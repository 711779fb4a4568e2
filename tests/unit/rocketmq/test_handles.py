"""Receipt handles: a handle is read as it was written, and nothing else is one."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from milepost.rocketmq.handles import Handle, Signer

SIGNER = Signer(b"k" * 32)
HANDLE = Handle(7, 3, 41, 2, b"process!", 99, 1_700_000_060_000)

handles = st.builds(
    Handle,
    st.integers(0, 2**63),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.binary(min_size=8, max_size=8),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
)


@given(handles)
def test_a_handle_is_read_as_it_was_written(handle: Handle) -> None:
    text = SIGNER.write(handle, "topic", "group")
    assert SIGNER.read(text, "topic", "group") == handle
    assert Signer(b"k" * 32).read(text, "topic", "group") == handle  # after a restart
    assert SIGNER.read(text, "topic", "other") is None
    assert SIGNER.read(text, "other", "group") is None
    assert Signer(b"x" * 32).read(text, "topic", "group") is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_byte_that_was_changed_makes_it_none(place: int, change: int) -> None:
    data = bytearray(base64.urlsafe_b64decode(SIGNER.write(HANDLE, "topic", "group")))
    data[place % len(data)] ^= change
    text = base64.urlsafe_b64encode(bytes(data)).decode()
    assert SIGNER.read(text, "topic", "group") is None


@given(st.text(max_size=200))
def test_any_text_is_refused_without_an_error(text: str) -> None:
    assert SIGNER.read(text, "topic", "group") is None


def test_names_cannot_be_divided_otherwise() -> None:
    """What is signed says where the topic ends and the group begins."""
    text = SIGNER.write(HANDLE, "ab", "c")
    assert SIGNER.read(text, "a", "bc") is None
