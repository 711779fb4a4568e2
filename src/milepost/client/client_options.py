"""The options of a client, in the official package's names and order."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass

from milepost.client.connection.auth import Authentication
from milepost.client.connection.backoff import FIRST_S, MAX_S
from milepost.client.connection.service_url import ServiceUrl
from milepost.client.connection.tls import TlsOptions
from milepost.client.loggers import ConsoleLogger, FileLogger
from milepost.client.option_checks import check, check_authentication
from milepost.clock import Clock
from milepost.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ClientOptions:
    service_url: str
    authentication: Authentication | None = None
    operation_timeout_seconds: float = 30
    # These five tune the official package's threads and files, and have no effect here.
    io_threads: int = 1
    message_listener_threads: int = 1
    concurrent_lookup_requests: int = 50_000
    log_conf_file_path: str | None = None
    stats_interval_in_seconds: int = 600
    # As `pulsar+ssl://` in the service URL.
    use_tls: bool = False
    tls_trust_certs_file_path: str | None = None
    tls_allow_insecure_connection: bool = False
    # The official package's default is False.
    tls_validate_hostname: bool = True
    # The client logs to `logging`, under `milepost.client`; this says how much, or to whom.
    logger: ConsoleLogger | FileLogger | logging.Logger | None = None
    connection_timeout_ms: int = 10_000
    listener_name: str | None = None
    tls_private_key_file_path: str | None = None
    tls_certificate_file_path: str | None = None
    _: KW_ONLY
    # Of an Apache Pulsar's HTTP service, for what its binary protocol lacks.
    admin_url: str | None = None
    # False connects to the service URL alone, whatever address the broker gives for itself: for one
    # broker behind a tunnel or a mapped port.
    follow_lookups: bool = True
    clock: Clock | None = None
    # The first and the longest wait before a connection is tried again.
    backoff_first_s: float = FIRST_S
    backoff_max_s: float = MAX_S

    def __post_init__(self) -> None:
        check("connection_timeout_ms", self.connection_timeout_ms, 1)
        if self.operation_timeout_seconds <= 0:
            raise InvalidInput(f"operation_timeout_seconds {self.operation_timeout_seconds}")
        check_authentication(self.authentication)
        ServiceUrl.parse(self.url)

    @property
    def url(self) -> str:
        """The service URL, with TLS if that is asked for."""
        url = self.service_url
        if self.use_tls and isinstance(url, str) and url.startswith("pulsar://"):
            url = url.replace("pulsar://", "pulsar+ssl://", 1)
        return url

    @property
    def tls(self) -> TlsOptions:
        return TlsOptions(
            self.tls_trust_certs_file_path,
            self.tls_allow_insecure_connection,
            self.tls_validate_hostname,
            self.tls_certificate_file_path,
            self.tls_private_key_file_path,
        )
