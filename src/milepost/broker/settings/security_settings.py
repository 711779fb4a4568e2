"""Settings of authentication, authorisation and TLS.

Rows of the table in `settings.py`, by the same rules. Lists are text with commas, as in `broker.conf`.
A setting that may hold a secret says so, and its value is shown nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.broker.settings.setting import Alias, count, duration, switch, text

_DAY_S = 24 * 3600


# Only `Settings` is made: what else a dataclass gets would be compiled with every start.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SecuritySettings:
    # Who is let in.
    authentication: bool = switch(
        False, "Clients prove who they are, and get a role by it.", "authenticationEnabled"
    )
    authentication_providers: str = text(
        "",
        "The ways to prove it, of `token`, `basic` and `tls`, or Pulsar's class names; empty takes "
        "those that are set up below.",
        "authenticationProviders",
    )
    anonymous_role: str = text(
        "", "The role of a client that proves nothing; empty refuses it.", "anonymousUserRole"
    )
    authentication_refresh_s: float = duration(
        60,
        "When credentials expire, their client is asked for new ones, and closed when it has given "
        "none for this long.",
        "authenticationRefreshCheckSeconds",
        low=0.1,
        high=_DAY_S,
    )
    require_tls_for_credentials: bool = switch(
        False,
        "Refuse tokens and passwords on connections without TLS, but for those of this machine.",
    )
    token_secret_key: str = text(
        "",
        "The secret that tokens are signed with: `file:///path`, `data:;base64,…`, a path or base64; "
        "32 bytes or more.",
        "tokenSecretKey",
        secret=True,
    )
    token_public_key: str = text(
        "",
        "The public key of who signs tokens, in the same ways: RSA from 2048 bits, P-256, P-384, "
        "P-521 or Ed25519.",
        "tokenPublicKey",
    )
    token_role_claim: str = text("sub", "The claim that names the role.", "tokenAuthClaim")
    token_audience_claim: str = text(
        "",
        "The claim that must name this broker; empty asks for none, or for `aud` if `token_audience` "
        "is set.",
        "tokenAudienceClaim",
    )
    token_audience: str = text("", "What that claim calls this broker.", "tokenAudience")
    token_clock_skew_s: int = count(
        0,
        "How far the clock of the signer may be off, in seconds.",
        "tokenAllowedClockSkewSeconds",
        high=3600,
    )
    basic_auth_file: str = text(
        "",
        "Users and passwords: an htpasswd file with bcrypt, SHA or apr1. Read again when it changes.",
        "basicAuthConf",
        secret=True,
    )
    rocketmq_access_keys_file: str = text(
        "",
        "Access keys of RocketMQ clients: a file with lines of key:secret or key:secret:role. Read again "
        "when it changes.",
        secret=True,
    )

    # What they may do.
    authorization: bool = switch(
        False,
        "Roles may do what they are granted, and nothing else. Needs `authentication`.",
        "authorizationEnabled",
    )
    superuser_roles: str = text("", "Roles that may do everything.", "superUserRoles")
    proxy_roles: str = text(
        "",
        "Roles that connect for others; both the proxy and the other need the right.",
        "proxyRoles",
    )
    authenticate_original_credentials: bool = switch(
        False,
        "A proxy passes on the credentials of the client it speaks for, and they are verified here too.",
        "authenticateOriginalAuthData",
    )
    wildcard_roles: bool = switch(
        False,
        "`*` at the beginning or end of a granted role stands for any text.",
        "authorizationAllowWildcardsMatching",
    )
    authenticate_metrics: bool = switch(
        False, "`/metrics` is for clients that prove who they are.", "authenticateMetricsEndpoint"
    )

    # How the bytes are protected.
    tls_port: int = count(
        -1,
        "Where clients connect with TLS; 0 takes a free port, -1 has none.",
        "brokerServicePortTls",
        low=-1,
        high=65535,
    )
    https_port: int = count(
        -1,
        "REST, HTTP lookup and metrics with TLS; 0 takes a free port, -1 has none.",
        "webServicePortTls",
        low=-1,
        high=65535,
    )
    rocketmq_tls_port: int = count(
        -1,
        "Where RocketMQ 5 clients connect with TLS; 0 takes a free port, -1 has none.",
        low=-1,
        high=65535,
    )
    rocketmq_namesrv_tls_port: int = count(
        -1,
        "Where mqadmin connects with TLS; 0 takes a free port, -1 has none.",
        low=-1,
        high=65535,
    )
    tls_certificate_file: str = text(
        "",
        "The broker's certificate, PEM, and those of the authorities in between.",
        "tlsCertificateFilePath",
    )
    tls_key_file: str = text("", "Its private key, PEM.", "tlsKeyFilePath")
    tls_trust_certs_file: str = text(
        "",
        "Authorities whose client certificates are taken, PEM; lists of revoked certificates may "
        "stand in it too. Empty asks for no certificates.",
        "tlsTrustCertsFilePath",
    )
    tls_require_client_certificate: bool = switch(
        False,
        "Turn clients without a trusted certificate away.",
        "tlsRequireTrustedClientCertOnConnect",
    )
    security_files_check_s: float = duration(
        30,
        "How often certificates, keys and passwords are looked at; changed ones are taken without "
        "closing connections.",
        Alias("tlsCertRefreshCheckDurationSec"),
        high=_DAY_S,
    )
