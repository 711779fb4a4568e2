"""Turns the credentials of a client into an identity, or refuses them.

Holds one verifier for each method that is configured, and replaces it when its file changes. What is
slow on purpose (bcrypt) runs in a thread, a few at a time; everything else is decided at once.

    identity = await authenticator.authenticate(Presented("token", b"eyJ…"))      # or NotAuthenticated

Nothing here logs or keeps what was presented.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.auth import access_keys, certificates
from milepost.broker.auth.access_keys import AccessKeyTable
from milepost.broker.auth.certificates import Certificate
from milepost.broker.auth.files import KeyFile, WatchedFile
from milepost.broker.auth.passwords import PasswordTable
from milepost.broker.auth.roles import TOKEN, Identity, check_role
from milepost.errors import InvalidInput, MilepostError, NotAuthenticated

if TYPE_CHECKING:
    from milepost.broker.auth.tokens import TokenVerifier

logger = logging.getLogger(__name__)

BASIC = "basic"
ANONYMOUS = "anonymous"

# Passwords that are judged at once: each takes a core for a tenth of a second.
PASSWORDS_AT_ONCE = 2
# Those that wait for it. More are turned away: a client that guesses must not keep others waiting.
PASSWORDS_WAITING_MAX = 64


class Presented(NamedTuple):
    """What a client shows. Its text is of no use to a log: only the method is."""

    method: str
    data: bytes = b""
    certificate: Certificate | None = None
    is_confidential: bool = True
    """Did it come by TLS, or from this machine?"""

    def __repr__(self) -> str:
        return f"<Presented {self.method[:20]!a}>"


@dataclass(slots=True)
class Authenticator:
    now_ms: Callable[[], int]

    # Whether clients are asked at all. If not, no client has a role.
    is_enabled: bool = False

    tokens: TokenVerifier | None = None
    key_file: KeyFile | None = None
    passwords: PasswordTable | None = None
    password_file: WatchedFile | None = None
    access_keys: AccessKeyTable | None = None
    access_key_file: WatchedFile | None = None
    takes_certificates: bool = False

    # The role of a client that shows no credentials, or none that are configured. Empty: it is refused.
    anonymous_role: str = ""

    # Are tokens and passwords refused on a connection that others could read?
    confidential_only: bool = False

    _waiting: int = 0
    _judges: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PASSWORDS_AT_ONCE))

    @property
    def methods(self) -> list[str]:
        """What clients may show, by the names the protocol has for it."""
        offered = {
            TOKEN: self.tokens is not None,
            BASIC: self.passwords is not None,
            certificates.METHOD: self.takes_certificates,
        }
        return [name for name, is_offered in offered.items() if is_offered]

    async def authenticate(self, presented: Presented) -> Identity:
        """Who shows this, or `NotAuthenticated`."""
        if presented.method not in self.methods:
            if self.anonymous_role:
                return Identity(self.anonymous_role, ANONYMOUS)
            raise NotAuthenticated(
                "unknown_method" if presented.method not in ("", "none") else "no_credentials",
                f"credentials are needed, by one of: {', '.join(self.methods)}",
            )
        if presented.method == certificates.METHOD:
            return certificates.identify(presented.certificate)
        if self.confidential_only and not presented.is_confidential:
            raise NotAuthenticated(
                "not_confidential", f"{presented.method} credentials are taken over TLS only"
            )
        if presented.method == BASIC:
            return await self._by_password(presented.data)
        assert self.tokens is not None
        try:
            token = presented.data.decode("ascii")
        except UnicodeDecodeError:
            raise NotAuthenticated("token_malformed", "not a JSON Web Token") from None
        return self.tokens.verify(token, self.now_ms())

    def by_access_key(
        self, key: str, said: bytes, signature: bytes, *, is_confidential: bool
    ) -> Identity:
        """Who has signed `said` with the secret of a RocketMQ access key, or `NotAuthenticated`."""
        if self.access_keys is None:
            raise NotAuthenticated(
                access_keys.METHOD,
                "this broker has no RocketMQ access keys: set rocketmq_access_keys_file, or use a "
                "Milepost token as the access key",
            )
        if self.confidential_only and not is_confidential:
            raise NotAuthenticated("not_confidential", "access keys are taken over TLS only")
        return self.access_keys.identify(key, said, signature)

    async def _by_password(self, data: bytes) -> Identity:
        assert self.passwords is not None
        table = self.passwords
        try:
            user, colon, password = data.decode().partition(":")
        except UnicodeDecodeError:
            user = colon = password = ""
        if not colon:
            raise NotAuthenticated("password_malformed", "expected user:password")
        check_role(user)
        if not table.is_remembered(user, password):
            if not await self._judge(table, user, password):
                # One text for both, so that a guesser does not learn which users there are.
                raise NotAuthenticated("password_wrong", "no such user, or a wrong password")
            table.remember(user, password)
        return Identity(user, BASIC)

    async def _judge(self, table: PasswordTable, user: str, password: str) -> bool:
        if self._waiting >= PASSWORDS_WAITING_MAX:
            raise NotAuthenticated("passwords_too_many", "too many passwords at once; try again")
        self._waiting += 1
        try:
            async with self._judges:
                return await asyncio.to_thread(table.is_right, user, password)
        finally:
            self._waiting -= 1

    def reload(self) -> set[str]:
        """Take files that have changed; while one cannot be used, go on with what it was. Returns the
        methods by which others may be known now."""
        changed = {BASIC} if self._reload_passwords() else set()
        if self._reload_access_keys():
            changed.add(access_keys.METHOD)
        return changed | {TOKEN} if self._reload_key() else changed

    def _reload_passwords(self) -> bool:
        file = self.password_file
        if file is None or not file.has_changed():
            return False
        try:
            self.passwords = PasswordTable.parse(file.read().decode())
        except (MilepostError, UnicodeDecodeError) as error:
            logger.warning("%s: passwords stay as they were: %s", file.path, _why(error))
            return False
        logger.info("%s: passwords were read again", file.path)
        return True

    def _reload_access_keys(self) -> bool:
        file = self.access_key_file
        if file is None or not file.has_changed():
            return False
        try:
            self.access_keys = AccessKeyTable.parse(file.read().decode())
        except (MilepostError, UnicodeDecodeError) as error:
            logger.warning("%s: access keys stay as they were: %s", file.path, _why(error))
            return False
        logger.info("%s: access keys were read again", file.path)
        return True

    def _reload_key(self) -> bool:
        file = self.key_file
        if file is None or self.tokens is None or not file.has_changed():
            return False
        try:
            key = file.read_key()
        except MilepostError as error:
            logger.warning("%s: the token key stays as it was: %s", file.path, error)
            return False
        if key is None:
            return False
        self.tokens = replace(self.tokens, key=key)
        logger.info("%s: the token key was read again, and is another", file.path)
        return True


def presented_over_http(
    headers: Mapping[str, str],
    certificate: Certificate | None,
    *,
    is_confidential: bool,
    takes_certificates: bool,
) -> Presented:
    """What a request shows: its Authorization header, or the certificate of its connection.

    `X-Pulsar-Auth-Method-Name` chooses between the two, as upstream's clients send it.
    """
    authorization = headers.get("authorization", "")
    named = headers.get("x-pulsar-auth-method-name", "")
    scheme, _, value = authorization.partition(" ")
    if authorization and named in ("", TOKEN, BASIC):
        if scheme.lower() == "bearer":
            return Presented(TOKEN, value.strip().encode(), None, is_confidential)
        if scheme.lower() == "basic":
            try:
                data = base64.b64decode(value.strip(), validate=True)
            except (binascii.Error, ValueError):
                data = b""
            return Presented(BASIC, data, None, is_confidential)
        return Presented("unknown")
    if named == certificates.METHOD or (not named and certificate and takes_certificates):
        return Presented(certificates.METHOD, b"", certificate)
    return Presented(named or "none")


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidInput) else "not UTF-8"
