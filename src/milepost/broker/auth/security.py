"""Builds the authenticator, the authorizer and TLS from the settings.

A set-up that looks protected and is not does not start: authorisation without authentication, a way in
that is not set up, an anonymous superuser, a secret that can be guessed. What is merely unwise is a line
in `warnings`, said once.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.broker.auth import certificates
from milepost.broker.auth.access_keys import AccessKeyTable
from milepost.broker.auth.authenticator import BASIC, Authenticator, Presented
from milepost.broker.auth.authorizer import Authorizer
from milepost.broker.auth.credentials import Credentials
from milepost.broker.auth.files import (
    KeyFile,
    WatchedFile,
    is_open_to_others,
    path_of,
    read_file,
    read_reference,
)
from milepost.broker.auth.grant_book import GrantBook
from milepost.broker.auth.passwords import PasswordTable
from milepost.broker.auth.roles import TOKEN, Identity, check_role
from milepost.broker.auth.tls import ListenerContext, TlsFiles
from milepost.broker.settings.security_settings import SecuritySettings
from milepost.errors import InvalidInput, InvalidSetting, NotAuthenticated, NotAuthorized

if TYPE_CHECKING:
    from milepost.broker.auth.keys import Key
    from milepost.broker.auth.tokens import TokenVerifier

T = TypeVar("T")

_PROVIDERS = {
    "AuthenticationProviderToken": TOKEN,
    "AuthenticationProviderBasic": BASIC,
    "AuthenticationProviderTls": certificates.METHOD,
}


class Security:
    def __init__(
        self,
        settings: SecuritySettings,
        grants: GrantBook,
        *,
        now_ms: Callable[[], int],
        admins_of: Callable[[str], Collection[str]],
        on_tls_failure: Callable[[ssl.SSLError], None],
    ) -> None:
        self._settings = settings
        self.grants = grants
        self.warnings: list[str] = []
        superusers = frozenset(_list(settings.superuser_roles))
        self.authorizer = Authorizer(
            is_enabled=settings.authorization,
            admins_of=admins_of,
            grants_of=grants.of,
            superusers=superusers,
            proxies=frozenset(_list(settings.proxy_roles)),
            wildcards=settings.wildcard_roles,
        )
        files = self._tls_files()
        self.tls = None if files is None else ListenerContext(files, on_tls_failure)
        self.http2_tls: ListenerContext | None = None
        """For the port of RocketMQ's clients, which ask whether HTTP/2 is spoken there."""
        if files is not None and settings.rocketmq_tls_port >= 0:
            self.http2_tls = ListenerContext(files._replace(protocols=("h2",)), on_tls_failure)
        self.authenticator = self._authenticator(now_ms)
        self._check(superusers)

    @staticmethod
    def check(settings: SecuritySettings) -> list[str]:
        """Would a broker with these settings start? `InvalidSetting` if not, else what is unwise."""

        async def nothing_stored(change: object, then: object = None, undo: object = None) -> Any:
            raise AssertionError("a check stores nothing")

        made = Security(
            settings,
            GrantBook(
                nothing_stored,
                check=lambda catalog, namespace: None,
                on_change=lambda namespace: None,
            ),
            now_ms=lambda: 0,
            admins_of=lambda tenant: (),
            on_tls_failure=lambda error: None,
        )
        # Also while authentication is off: an operator should hear of a bad key before turning it on.
        made._token_key()
        return made.warnings

    # -- who ---------------------------------------------------------------------------------------

    def credentials(self) -> Credentials:
        """For one connection."""
        return Credentials(int(self._settings.authentication_refresh_s * 1000))

    async def identify(
        self,
        presented: Presented,
        *,
        original_role: str = "",
        original: Presented | None = None,
        over_http: bool = False,
    ) -> Identity:
        """Who shows this, and for whom; `NotAuthenticated` or `NotAuthorized` if that cannot be."""
        identity = await self.authenticator.authenticate(presented)
        if original_role and self._settings.authenticate_original_credentials and not over_http:
            known = await self.authenticator.authenticate(original or Presented("none"))
            original_role = known.role
            # Upstream asks the client behind the proxy for new credentials, never the proxy.
            identity = identity._replace(method=known.method, expires_at_ms=known.expires_at_ms)
        if original_role:
            identity = identity._replace(original_role=check_role(original_role))
        return self._admitted(identity, over_http=over_http)

    def identify_key(
        self, key: str, said: bytes, signature: bytes, *, is_confidential: bool
    ) -> Identity:
        """Who has signed this with a RocketMQ access key; `NotAuthenticated` or `NotAuthorized` if that
        cannot be."""
        identity = self.authenticator.by_access_key(
            key, said, signature, is_confidential=is_confidential
        )
        return self._admitted(identity)

    def _admitted(self, identity: Identity, *, over_http: bool = False) -> Identity:
        fault = None
        if self.authorizer.is_enabled:
            fault = self.authorizer.fault_of_proxy(identity, same_is_fine=over_http)
        if fault is not None:
            raise NotAuthorized(fault)
        if identity.role not in self.authorizer.proxies:
            identity = identity._replace(original_role="")
        return identity

    def can_refresh(self, identity: Identity) -> bool:
        """Could the client behind a connection give new credentials? Not if only a proxy's are known."""
        return not identity.original_role or self._settings.authenticate_original_credentials

    def reload(self) -> set[str]:
        """Take files that have changed; the methods by which others may be known now."""
        changed = self.authenticator.reload()
        for context in (self.tls, self.http2_tls):
            if context is not None:
                context.reload()
        return changed

    # -- the set-up --------------------------------------------------------------------------------

    def _authenticator(self, now_ms: Callable[[], int]) -> Authenticator:
        settings = self._settings
        if not settings.authentication:
            return Authenticator(now_ms)
        key, key_file = self._token_key()
        table, file = self._passwords()
        keys, keys_file = self._access_keys()
        ready = {
            TOKEN: key is not None,
            BASIC: table is not None,
            certificates.METHOD: self.tls is not None and bool(settings.tls_trust_certs_file),
        }
        named = [_method(name) for name in _list(settings.authentication_providers)]
        for method in named:
            if not ready[method]:
                raise InvalidSetting(
                    f"authentication_providers names {method}, which is not set up"
                )
        wanted = {method for method in ready if ready[method] and (not named or method in named)}
        claim = settings.token_audience_claim or ("aud" if settings.token_audience else "")
        if claim and not settings.token_audience:
            raise InvalidSetting("token_audience_claim is set, and token_audience is not")
        return Authenticator(
            now_ms,
            is_enabled=True,
            tokens=self._verifier(key, claim) if key is not None and TOKEN in wanted else None,
            key_file=key_file,
            passwords=table if BASIC in wanted else None,
            password_file=file if BASIC in wanted else None,
            access_keys=keys,
            access_key_file=keys_file,
            takes_certificates=certificates.METHOD in wanted,
            anonymous_role=settings.anonymous_role,
            confidential_only=settings.require_tls_for_credentials,
        )

    def _verifier(self, key: Key, audience_claim: str) -> TokenVerifier:
        from milepost.broker.auth.tokens import TokenVerifier

        settings = self._settings
        return TokenVerifier(
            key,
            settings.token_role_claim or "sub",
            audience_claim,
            settings.token_audience,
            settings.token_clock_skew_s * 1000,
        )

    def _token_key(self) -> tuple[Key | None, KeyFile | None]:
        settings = self._settings
        # As upstream: with both, the secret counts.
        is_secret = bool(settings.token_secret_key)
        reference = settings.token_secret_key or settings.token_public_key
        if not reference:
            return None, None
        # Loaded here: the libraries behind it are megabytes that a broker without tokens does not need.
        from milepost.broker.auth.keys import public_key, secret_key

        parse = secret_key if is_secret else public_key
        name = "token_secret_key" if is_secret else "token_public_key"
        key = _read(name, reference, parse)
        path = path_of(reference)
        if is_secret:
            self._warn_if_open(path, "can sign any token")
        return key, None if path is None else KeyFile(path, parse)

    def _passwords(self) -> tuple[PasswordTable | None, WatchedFile | None]:
        reference = self._settings.basic_auth_file
        if not reference:
            return None, None
        table = _read("basic_auth_file", reference, lambda data: PasswordTable.parse(data.decode()))
        if table.weak:
            self.warnings.append(
                f"basic_auth_file: {len(table.weak)} of the passwords are hashed by SHA or MD5, which "
                "is quick to guess from; `htpasswd -B` makes better ones"
            )
        path = path_of(reference)
        self._warn_if_open(path, "can guess passwords")
        if path is None:
            return table, None
        file = WatchedFile(path)
        file.read()
        return table, file

    def _access_keys(self) -> tuple[AccessKeyTable | None, WatchedFile | None]:
        reference = self._settings.rocketmq_access_keys_file
        if not reference:
            return None, None
        name = "rocketmq_access_keys_file"
        table = _read(name, reference, lambda data: AccessKeyTable.parse(data.decode()))
        path = path_of(reference)
        self._warn_if_open(path, "can pass for any of the clients")
        if path is None:
            return table, None
        file = WatchedFile(path)
        file.read()
        return table, file

    def _tls_files(self) -> TlsFiles | None:
        """The files of the TLS ports; None if there is no such port."""
        settings = self._settings
        rocketmq_port = max(settings.rocketmq_tls_port, settings.rocketmq_namesrv_tls_port)
        if max(settings.tls_port, settings.https_port, rocketmq_port) < 0:
            return None
        if not settings.tls_certificate_file or not settings.tls_key_file:
            raise InvalidSetting("TLS needs tls_certificate_file and tls_key_file")
        if settings.tls_require_client_certificate and not settings.tls_trust_certs_file:
            raise InvalidSetting("tls_require_client_certificate needs tls_trust_certs_file")
        trusted = settings.tls_trust_certs_file
        for name in ("tls_certificate_file", "tls_key_file", "tls_trust_certs_file"):
            if value := getattr(settings, name):
                try:
                    read_file(Path(value))
                except InvalidInput as error:
                    raise InvalidSetting(f"{name}: {error}") from None
        files = TlsFiles(
            Path(settings.tls_certificate_file),
            Path(settings.tls_key_file),
            Path(trusted) if trusted else None,
            settings.tls_require_client_certificate,
        )
        self._warn_if_open(files.key, "can pass for this broker")
        return files

    def _check(self, superusers: frozenset[str]) -> None:
        settings = self._settings
        if not settings.authentication:
            if settings.authorization:
                raise InvalidSetting(
                    "authorization is on, and authentication is off: turn it on too"
                )
            return
        for name in ("superuser_roles", "proxy_roles", "anonymous_role"):
            for role in _list(getattr(settings, name)):
                try:
                    check_role(role)
                except NotAuthenticated as error:
                    raise InvalidSetting(f"{name}: {error}") from None
        has_a_way = self.authenticator.methods or self.authenticator.access_keys is not None
        if not has_a_way and not settings.anonymous_role:
            raise InvalidSetting(
                "authentication is on, and no way to prove a role is set up: set token_secret_key, "
                "token_public_key, basic_auth_file, or TLS with tls_trust_certs_file"
            )
        if settings.anonymous_role and settings.anonymous_role in superusers:
            raise InvalidSetting(
                f"anonymous_role {settings.anonymous_role} is a superuser: anyone could do anything"
            )
        if settings.authorization and not superusers:
            self.warnings.append(
                "superuser_roles is empty: no role can make tenants, or grant anything first"
            )

    def _warn_if_open(self, path: Path | None, then: str) -> None:
        if path is not None and is_open_to_others(path):
            self.warnings.append(
                f"{path}: others on this machine may read or change it, and one who does {then}; "
                f"`chmod 600` it"
            )


def _list(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _method(name: str) -> str:
    method = _PROVIDERS.get(name.rpartition(".")[2], name.lower())
    if method not in _PROVIDERS.values():
        raise InvalidSetting(
            f"authentication_providers: {name} is not supported; there are "
            f"{', '.join(_PROVIDERS.values())}"
        )
    return method


def _read(setting: str, reference: str, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(read_reference(reference))
    except (InvalidInput, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, InvalidInput) else "not UTF-8"
        raise InvalidSetting(f"{setting}: {why}") from None
