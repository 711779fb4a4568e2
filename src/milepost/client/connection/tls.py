"""The TLS context, from the official client's options."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from milepost.client.connection.auth import Authentication
from milepost.errors import InvalidInput, MissingFile


@dataclass(frozen=True, slots=True)
class TlsOptions:
    # PEM file of the authorities to trust; the system's when None.
    trust_certs_path: str | None = None
    # Take any certificate: for trials only.
    allow_insecure: bool = False
    # Whether the certificate must be for the host that is asked. The official client asks for that only when
    # told to; without it a stranger with any certificate of the authority can stand in between.
    validate_hostname: bool = True
    certificate_path: str | None = None
    private_key_path: str | None = None

    def context(self, authentication: Authentication) -> ssl.SSLContext:
        """A context for one connection; `InvalidInput` if a file cannot be used."""
        certificate = authentication.certificate_path or self.certificate_path
        key = authentication.private_key_path or self.private_key_path
        try:
            context = ssl.create_default_context(cafile=self.trust_certs_path)
            context.check_hostname = self.validate_hostname and not self.allow_insecure
            if self.allow_insecure:
                context.verify_mode = ssl.CERT_NONE
            if certificate is not None:
                context.load_cert_chain(certificate, key)
        except FileNotFoundError:
            raise MissingFile(
                f"TLS files {self.trust_certs_path}, {certificate}, {key}: one is not there"
            ) from None
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(
                f"TLS files {self.trust_certs_path}, {certificate}, {key}: {error}"
            ) from error
        return context
