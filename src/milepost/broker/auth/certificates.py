"""TLS client certificates: the role is the common name of the subject.

What is read here was verified by the TLS handshake against the trusted authorities; a client without a
certificate, or with one that was not verified, has none as far as this module is told.

    >>> role_of({"subject": ((("organizationName", "Acme"),), (("commonName", "reporter"),))})
    'reporter'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from milepost.broker.auth.roles import Identity, check_role
from milepost.errors import NotAuthenticated

METHOD = "tls"
# Where the HTTP listener leaves the certificate of a request's connection, in the scope.
CERTIFICATE = "milepost.certificate"

# As `ssl.SSLObject.getpeercert` gives it; empty or None if there is none that holds.
Certificate = Mapping[str, Any]


def identify(certificate: Certificate | None) -> Identity:
    """Whose certificate it is, or `NotAuthenticated`."""
    if not certificate:
        raise NotAuthenticated("no_certificate", "there is no client certificate")
    return Identity(role_of(certificate), METHOD)


def role_of(certificate: Certificate) -> str:
    names = [
        value
        for part in certificate.get("subject", ())
        for kind, value in part
        if kind == "commonName"
    ]
    if len(names) != 1:
        # With two names, it is unknown which of them the authority has verified.
        raise NotAuthenticated(
            "certificate_without_role",
            f"the client certificate has {len(names)} common names, expected one",
        )
    return check_role(names[0])
