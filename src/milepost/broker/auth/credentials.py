"""The credentials of one connection, and what happens when they expire.

            accept                    expired                  renewed
    NEW ───────────► HOLDING ──────────────────► CHALLENGED ───────────► HOLDING
                                                     │ no answer in time, another role, no refresh
                                                     ▼
                                                  REFUSED

It decides; the session sends the challenge and ends the connection. Time is given, never asked for.

    >>> credentials = Credentials(answer_within_ms=5000)
    >>> credentials.accept(Identity("reporter", "token", expires_at_ms=1000))
    >>> credentials.judge(now_ms=1000, can_refresh=True), credentials.judge(now_ms=5999, can_refresh=True)
    (<Verdict.CHALLENGE: 'challenge'>, <Verdict.FINE: 'fine'>)
"""

from __future__ import annotations

from enum import Enum

from milepost.broker.auth.roles import Identity
from milepost.errors import NotAuthenticated


class Verdict(Enum):
    FINE = "fine"
    CHALLENGE = "challenge"
    """Ask the client for new credentials."""
    END = "end"
    """The connection has no client behind it any more."""


class Credentials:
    def __init__(self, answer_within_ms: int) -> None:
        # None until the handshake is done; afterwards the role never changes.
        self.identity: Identity | None = None
        self._answer_within_ms = answer_within_ms
        # When an unanswered challenge ends the connection; None while none is out.
        self._answer_by_ms: int | None = None

    def accept(self, identity: Identity) -> None:
        """The proof held: the first one, or a newer one of the same role."""
        known = self.identity
        if known is not None and (known.role, known.original_role) != (
            identity.role,
            identity.original_role,
        ):
            raise NotAuthenticated("role_changed", f"role {known} cannot become {identity}")
        self.identity = identity
        self._answer_by_ms = None

    @property
    def is_challenged(self) -> bool:
        return self._answer_by_ms is not None

    def judge(self, now_ms: int, *, can_refresh: bool) -> Verdict:
        """Once in a while: do the credentials still hold?"""
        identity = self.identity
        if identity is None or identity.expires_at_ms is None or now_ms < identity.expires_at_ms:
            return Verdict.FINE
        if self._answer_by_ms is None:
            if not can_refresh:
                return Verdict.END
            self._answer_by_ms = now_ms + self._answer_within_ms
            return Verdict.CHALLENGE
        return Verdict.END if now_ms >= self._answer_by_ms else Verdict.FINE

    def doubt(self, method: str, now_ms: int) -> None:
        """What proofs of this method are judged by has changed: this one has to be given anew."""
        identity = self.identity
        if identity is not None and identity.method == method:
            expires = now_ms if identity.expires_at_ms is None else identity.expires_at_ms
            self.identity = identity._replace(expires_at_ms=min(expires, now_ms))

    def excuse(self, now_ms: int) -> None:
        """The broker itself does not listen just now: the answer may be waiting to be read."""
        if self._answer_by_ms is not None:
            self._answer_by_ms = max(self._answer_by_ms, now_ms + self._answer_within_ms)
