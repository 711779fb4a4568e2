"""The addresses, TLS and credentials of a broker, as one checked value for every tool.

The command line, the pipelines and the Spark source each read this from words of their own (flags,
contexts, options); behind that they share it, so that a URL, a certificate or a token means the same
everywhere. An endpoint is checked when it is made: a scheme that nothing could obey is refused here,
and not sent to a plain port. It pickles, shows no secret, and opens nothing before it is asked to.

    >>> endpoint = Endpoint(url="pulsar+ssl://broker.example:6651", token_file="/run/token")
    >>> endpoint.is_tls, endpoint.http_url
    (True, 'https://broker.example:8443')
    >>> Endpoint(url="http://broker.example")
    Traceback (most recent call last):
    milepost.errors.InvalidInput: not a service URL: 'http://broker.example': expected pulsar://host:port
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from milepost.errors import InvalidInput, InvalidSetting, MissingFile

if TYPE_CHECKING:
    from milepost.admin import Admin, Credentials, Tls
    from milepost.client.client import Client
    from milepost.client.connection.auth import Authentication
    from milepost.client.connection.service_url import ServiceUrl
    from milepost.client.connection.tls import TlsOptions

HTTP_URL_DEFAULT: Final = "http://localhost:8080"
HTTP_PORT: Final = 8080
HTTPS_PORT: Final = 8443
TIMEOUT_S: Final = 60.0

# Values that say where the broker is, and who asks. Each group belongs together.
ADDRESSES: Final = ("admin_url", "url")
CREDENTIALS: Final = ("token", "token_file", "user", "password")
# Values that are paths.
FILES: Final = ("token_file", "tls_trust_certs", "tls_certificate", "tls_key")


@dataclass(frozen=True)
class Endpoint:
    admin_url: str | None = None
    """The HTTP port. None means the usual port on the host of `url`."""
    url: str | None = None
    """The binary port. None means what the HTTP port tells for a topic."""
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    """Read anew for every connection, so that a renewed token is used."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_trust_certs: str | None = None
    """PEM file of the authorities to trust; None means the system's."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_allow_insecure: bool = False
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if self.url is not None:
            _parsed(self.url)
        if self.admin_url is not None:
            from milepost.admin.transport import parse_origins

            parse_origins(self.admin_url)
        if self.tls_key and not self.tls_certificate:
            raise InvalidInput(f"TLS key {self.tls_key!a} has no certificate: name both")

    @property
    def is_tls(self) -> bool:
        """Must the binary port speak TLS? As the URL says; without one, as the HTTP port does."""
        if self.url is not None:
            return _parsed(self.url).is_tls
        return self.http_url.startswith("https:")

    @property
    def http_url(self) -> str:
        """The HTTP port that is asked: the given one, or the usual one beside the binary port."""
        if self.admin_url is not None:
            return self.admin_url
        if self.url is None:
            return HTTP_URL_DEFAULT
        known = _parsed(self.url)
        scheme, port = ("https", HTTPS_PORT) if known.is_tls else ("http", HTTP_PORT)
        hosts = (f"[{host}]" if ":" in host else host for host, _ in known.hosts)
        return f"{scheme}://" + ",".join(f"{host}:{port}" for host in hosts)

    @property
    def has_credentials(self) -> bool:
        return bool(self.token or self.token_file or self.user or self.tls_certificate)

    def read_token(self) -> str | None:
        """The token, from its file if it has one; `InvalidSetting` if that cannot be read."""
        if self.token or not self.token_file:
            return self.token
        path = Path(self.token_file)
        try:
            return path.read_text("utf-8").strip()
        except FileNotFoundError:
            raise MissingFile(f"token file {path}: there is no such file") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not text"
            raise InvalidSetting(f"token file {path}: cannot be read: {why}") from None

    def authentication(self) -> Authentication:
        """Who the binary client says it is: a token, a user, a certificate, or no one."""
        from milepost.client.connection import auth

        if self.token or self.token_file:
            return auth.AuthenticationToken(lambda: self.read_token() or "")
        if self.user is not None:
            return auth.AuthenticationBasic(self.user, self.password or "")
        if self.tls_certificate:
            return auth.AuthenticationTLS(
                self.tls_certificate, self.tls_key or self.tls_certificate
            )
        return auth.Authentication()

    def tls_options(self) -> TlsOptions:
        """How the binary client trusts the broker, and what it shows of its own."""
        from milepost.client.connection.tls import TlsOptions

        return TlsOptions(
            self.tls_trust_certs,
            allow_insecure=self.tls_allow_insecure,
            validate_hostname=not self.tls_allow_insecure,
            certificate_path=self.tls_certificate,
            private_key_path=self.tls_key or self.tls_certificate,
        )

    def credentials(self) -> Credentials:
        """Who asks the HTTP port."""
        from milepost.admin import Credentials

        token = (lambda: self.read_token() or "") if self.token_file else self.token
        return Credentials(token=token, user=self.user, password=self.password)

    def tls(self) -> Tls:
        """How the HTTP port is trusted, and what is shown to it."""
        from milepost.admin import Tls

        return Tls(
            trust_certs=self.tls_trust_certs,
            certificate=self.tls_certificate,
            key=self.tls_key,
            allow_insecure=self.tls_allow_insecure,
        )

    def admin(self) -> Admin:
        """A client of the HTTP port."""
        from milepost.admin import Admin

        return Admin(
            self.http_url,
            credentials=self.credentials(),
            tls=self.tls(),
            timeout_s=self.timeout_s,
        )

    def located(self, topic: str) -> Endpoint:
        """The same with the binary address: as given, or as the HTTP port tells for a topic.

        `InvalidInput` if the HTTP port speaks TLS and the address that it tells does not.
        """
        if self.url is not None:
            return self
        with self.admin() as admin:
            found = admin.lookup_topic(topic)
        plain, secure = str(found.get("brokerUrl") or ""), str(found.get("brokerUrlTls") or "")
        if self.is_tls and not secure:
            raise InvalidInput(
                f"{self.http_url} tells no address with TLS for {topic}, only {plain}; "
                "name the address with --url"
            )
        return replace(self, url=secure if self.is_tls else plain or secure)

    def client(self, topic: str, **options: Any) -> Client:
        """An asyncio client, not connected yet, at the address for a topic."""
        from milepost.client.client import Client

        known = self.located(topic)
        return Client(
            str(known.url),
            authentication=self.authentication() if self.has_credentials else None,
            operation_timeout_seconds=self.timeout_s,
            tls_trust_certs_file_path=self.tls_trust_certs,
            tls_allow_insecure_connection=self.tls_allow_insecure,
            tls_validate_hostname=not self.tls_allow_insecure,
            tls_certificate_file_path=self.tls_certificate,
            tls_private_key_file_path=self.tls_key or self.tls_certificate,
            **options,
        )


def _parsed(url: str) -> ServiceUrl:
    from milepost.client.connection.service_url import ServiceUrl  # not for a command's help

    return ServiceUrl.parse(url)


NAMES: Final = tuple(one.name for one in fields(Endpoint))


def first_of(sources: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Each value from the first source that has it; who asks is taken from one source as a whole."""
    values: dict[str, Any] = {}
    for source in sources:
        known = any(name in values for name in CREDENTIALS)
        for name in NAMES:
            if source.get(name) and name not in values and not (known and name in CREDENTIALS):
                values[name] = source[name]
    return values
