"""Basic authentication: the lines of an htpasswd file.

Reads `user:hash` with bcrypt, SHA-1 and Apache's MD5 (apr1); what has no salt is taken because upstream
takes it, and said to be weak. Plain text and DES are refused. It opens no file, and keeps no password:
one that was right is remembered as a keyed digest, so that bcrypt is not paid for every request.

    >>> table = PasswordTable.parse("reporter:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=")
    >>> table.is_right("reporter", "password"), table.is_right("reporter", "guess")
    (True, False)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict

import bcrypt

from milepost.errors import InvalidInput

USERS_MAX = 100_000
PASSWORD_SIZE_MAX = 1024
# Right passwords that are remembered.
REMEMBERED_MAX = 1024

_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|1[0-6])\$[./A-Za-z0-9]{53}")
_APR1 = re.compile(r"\$apr1\$([./A-Za-z0-9]{1,8})\$[./A-Za-z0-9]{22}")
_SHA = re.compile(r"\{SHA\}[A-Za-z0-9+/]{27}=")

# bcrypt reads no more of a password.
_BCRYPT_SIZE = 72

_ITOA64 = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class PasswordTable:
    def __init__(self, hashes: dict[str, str]) -> None:
        self._hashes = hashes
        self._key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, None] = OrderedDict()
        # An unknown user is compared with this hash: that takes as long as a wrong password.
        self._anyone = next(iter(hashes.values()), "")

    def __repr__(self) -> str:
        return f"<PasswordTable of {len(self._hashes)} users>"

    @staticmethod
    def parse(text: str) -> PasswordTable:
        """The table of a file; `InvalidInput` names the line that is none of it, not what it says."""
        hashes: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            user, colon, hashed = line.partition(":")
            if not user or not colon:
                raise InvalidInput(f"line {number}: expected user:hash")
            if user in hashes:
                raise InvalidInput(f"line {number}: the user is there already")
            if not any(kind.fullmatch(hashed) for kind in (_BCRYPT, _APR1, _SHA)):
                raise InvalidInput(
                    f"line {number}: the hash is none of bcrypt (cost 4 to 16), {{SHA}} and $apr1$; "
                    "`htpasswd -B` makes the best"
                )
            if len(hashes) == USERS_MAX:
                raise InvalidInput(f"line {number}: more than {USERS_MAX} users")
            hashes[user] = hashed
        return PasswordTable(hashes)

    @property
    def weak(self) -> list[str]:
        """Users whose hash is easily guessed from."""
        return [user for user, hashed in self._hashes.items() if not hashed.startswith("$2")]

    def is_remembered(self, user: str, password: str) -> bool:
        """Was this right before? Cheap, unlike `is_right`."""
        digest = self._digest(user, password)
        if digest not in self._remembered:
            return False
        self._remembered.move_to_end(digest)
        return True

    def remember(self, user: str, password: str) -> None:
        self._remembered[self._digest(user, password)] = None
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)

    def is_right(self, user: str, password: str) -> bool:
        """Is this the user's password? Slow on purpose; touches nothing that others touch."""
        if len(password) > PASSWORD_SIZE_MAX:
            return False
        hashed = self._hashes.get(user)
        right = bool(self._anyone) and _fits(hashed or self._anyone, password.encode())
        return right and hashed is not None

    def _digest(self, user: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{len(user)}:{user}:{password}".encode(), "sha256")


def _fits(hashed: str, password: bytes) -> bool:
    if hashed.startswith("{SHA}"):
        made = base64.b64encode(hashlib.sha1(password).digest()).decode()  # noqa: S324  # the format
        return hmac.compare_digest(hashed, "{SHA}" + made)
    salt = _APR1.fullmatch(hashed)
    if salt is not None:
        return hmac.compare_digest(hashed, apr1(password, salt[1]))
    return bcrypt.checkpw(password[:_BCRYPT_SIZE].partition(b"\0")[0], hashed.encode())


def apr1(password: bytes, salt: str) -> str:
    """Apache's MD5: a thousand rounds of it, in the order that its format asks for."""
    salted = salt.encode()
    inner = _md5(password, salted, password)
    start = [password, b"$apr1$", salted]
    start += [inner[: min(16, left)] for left in range(len(password), 0, -16)]
    bits = len(password)
    while bits:
        start.append(b"\0" if bits & 1 else password[:1])
        bits >>= 1
    digest = _md5(*start)
    for turn in range(1000):
        parts = [password if turn & 1 else digest]
        if turn % 3:
            parts.append(salted)
        if turn % 7:
            parts.append(password)
        parts.append(digest if turn & 1 else password)
        digest = _md5(*parts)
    groups = [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)]
    text = "".join(
        _in_64(digest[high] << 16 | digest[middle] << 8 | digest[low], 4)
        for high, middle, low in groups
    )
    return f"$apr1${salt}${text}{_in_64(digest[11], 2)}"


def _md5(*parts: bytes) -> bytes:
    return hashlib.md5(b"".join(parts)).digest()  # noqa: S324  # the format's own choice


def _in_64(value: int, length: int) -> str:
    return "".join(_ITOA64[value >> 6 * at & 63] for at in range(length))
