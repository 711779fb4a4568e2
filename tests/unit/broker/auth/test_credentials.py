"""What becomes of a connection whose credentials expire."""

from __future__ import annotations

import pytest

from milepost.broker.auth.credentials import Credentials, Verdict
from milepost.broker.auth.roles import Identity
from milepost.errors import NotAuthenticated


def _credentials(expires_at_ms: int | None = 1000) -> Credentials:
    credentials = Credentials(answer_within_ms=500)
    credentials.accept(Identity("r", "token", expires_at_ms))
    return credentials


def test_what_never_expires_is_fine_for_ever() -> None:
    assert _credentials(None).judge(10**15, can_refresh=False) is Verdict.FINE
    assert Credentials(500).judge(10**15, can_refresh=False) is Verdict.FINE


def test_a_client_is_challenged_once_and_then_awaited() -> None:
    credentials = _credentials()
    verdicts = [credentials.judge(at, can_refresh=True) for at in (999, 1000, 1001, 1499, 1500)]
    fine, challenge, end = Verdict.FINE, Verdict.CHALLENGE, Verdict.END
    assert verdicts == [fine, challenge, fine, fine, end]


def test_a_client_that_cannot_refresh_ends_at_once() -> None:
    assert _credentials().judge(1000, can_refresh=False) is Verdict.END


def test_newer_credentials_hold_until_they_expire_too() -> None:
    credentials = _credentials()
    assert credentials.judge(1000, can_refresh=True) is Verdict.CHALLENGE
    assert credentials.is_challenged
    credentials.accept(Identity("r", "token", 2000))
    assert not credentials.is_challenged
    assert credentials.judge(1999, can_refresh=True) is Verdict.FINE
    assert credentials.judge(2000, can_refresh=True) is Verdict.CHALLENGE


@pytest.mark.parametrize(
    "other", [Identity("admin", "token", 2000), Identity("r", "token", 2000, "admin")]
)
def test_a_role_does_not_change(other: Identity) -> None:
    credentials = _credentials()
    credentials.judge(1000, can_refresh=True)
    with pytest.raises(NotAuthenticated, match="cannot become"):
        credentials.accept(other)
    assert credentials.identity == Identity("r", "token", 1000)
    assert credentials.judge(1500, can_refresh=True) is Verdict.END


def test_an_answer_that_the_broker_does_not_read_is_not_late() -> None:
    credentials = _credentials()
    credentials.excuse(900)  # nothing is awaited: nothing changes
    credentials.judge(1000, can_refresh=True)
    credentials.excuse(1400)
    assert credentials.judge(1500, can_refresh=True) is Verdict.FINE
    assert credentials.judge(1900, can_refresh=True) is Verdict.END


def test_proofs_of_a_method_whose_key_has_changed_are_asked_for_anew() -> None:
    for expires in (None, 9_000_000):
        credentials = Credentials(5000)
        credentials.accept(Identity("reporter", "token", expires))
        credentials.doubt("basic", 1000)
        assert credentials.judge(1000, can_refresh=True) is Verdict.FINE
        credentials.doubt("token", 1000)
        assert credentials.judge(1000, can_refresh=True) is Verdict.CHALLENGE
        credentials.accept(Identity("reporter", "token", 9_000_000))
        assert credentials.judge(2000, can_refresh=True) is Verdict.FINE
    nobody = Credentials(5000)
    nobody.doubt("token", 1000)
    assert nobody.judge(1000, can_refresh=True) is Verdict.FINE
