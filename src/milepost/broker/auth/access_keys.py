"""RocketMQ's access keys: lines of `key:secret` or `key:secret:role`.

A client signs a text with its secret (HMAC-SHA1, which its protocol fixes) and shows the key, the text and
the signature; the secret never travels. Without a role the key is the role. It opens no file.

    >>> table = AccessKeyTable.parse("billing-key:a long secret:billing")
    >>> signature = hmac.digest(b"a long secret", b"20260101T000000Z", "sha1")
    >>> str(table.identify("billing-key", b"20260101T000000Z", signature))
    'billing'
"""

from __future__ import annotations

import hmac
import re
from typing import NamedTuple

from milepost.broker.auth.roles import Identity, check_role
from milepost.errors import InvalidInput, NotAuthenticated

METHOD = "access_key"

KEYS_MAX = 100_000
KEY_LENGTH_MAX = 256
SECRET_LENGTH_MIN = 8

_KEY = re.compile(r"[^,\s/]+")

# An unknown key is compared with a signature of this secret: that takes as long as a wrong signature.
_NO_SECRET = b"no secret"


class _Holder(NamedTuple):
    role: str
    secret: bytes

    def __repr__(self) -> str:
        return f"<access key of {self.role}>"


class AccessKeyTable:
    def __init__(self, holders: dict[str, _Holder]) -> None:
        self._holders = holders

    def __repr__(self) -> str:
        return f"<AccessKeyTable of {len(self._holders)} keys>"

    @staticmethod
    def parse(text: str) -> AccessKeyTable:
        """The table of a file; `InvalidInput` names the line that is none of it, not what it says."""
        holders: dict[str, _Holder] = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            key, *rest = line.split(":")
            if not 1 <= len(rest) <= 2 or not 0 < len(key) <= KEY_LENGTH_MAX:
                raise InvalidInput(f"line {number}: expected key:secret or key:secret:role")
            if not _KEY.fullmatch(key) or key.count(".") == 2:
                raise InvalidInput(
                    f"line {number}: the key has a slash, a comma, a blank or two dots, as tokens have"
                )
            secret, role = rest[0], rest[1] if len(rest) == 2 else key
            if len(secret) < SECRET_LENGTH_MIN:
                raise InvalidInput(
                    f"line {number}: the secret has less than {SECRET_LENGTH_MIN} characters"
                )
            if key in holders:
                raise InvalidInput(f"line {number}: the key is there already")
            if len(holders) == KEYS_MAX:
                raise InvalidInput(f"line {number}: more than {KEYS_MAX} keys")
            try:
                check_role(role)
            except NotAuthenticated:
                raise InvalidInput(f"line {number}: the role cannot be used") from None
            holders[key] = _Holder(role, secret.encode())
        return AccessKeyTable(holders)

    def identify(self, key: str, said: bytes, signature: bytes) -> Identity:
        """Who has signed `said` with the secret of this key, or `NotAuthenticated`."""
        holder = self._holders.get(key)
        made = hmac.digest(_NO_SECRET if holder is None else holder.secret, said, "sha1")
        if not hmac.compare_digest(made, signature) or holder is None:
            # One text for both, so that a guesser does not learn which keys there are.
            raise NotAuthenticated("signature_wrong", "no such access key, or a wrong signature")
        return Identity(holder.role, METHOD)
