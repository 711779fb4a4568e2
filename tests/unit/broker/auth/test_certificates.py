"""The role of a client certificate is its common name."""

from __future__ import annotations

import pytest

from milepost.broker.auth.certificates import identify, role_of
from milepost.broker.auth.roles import Identity
from milepost.errors import NotAuthenticated


def _certificate(*names: str) -> dict[str, object]:
    return {"subject": tuple((("commonName", name),) for name in names)}


def test_the_common_name_is_the_role() -> None:
    subject = ((("organizationName", "Acme, CN=admin"),), (("commonName", "reporter"),))
    assert identify({"subject": subject}) == Identity("reporter", "tls")


def test_several_parts_may_stand_in_one() -> None:
    assert (
        role_of({"subject": ((("countryName", "DE"), ("commonName", "reporter")),)}) == "reporter"
    )


@pytest.mark.parametrize("certificate", [None, {}])
def test_no_certificate(certificate: dict[str, object] | None) -> None:
    with pytest.raises(NotAuthenticated) as refused:
        identify(certificate)
    assert refused.value.reason == "no_certificate"


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (_certificate(), "certificate_without_role"),
        (_certificate("admin", "reporter"), "certificate_without_role"),
        (_certificate("admin\n"), "bad_role"),
        (_certificate(""), "bad_role"),
        ({"issuer": ()}, "certificate_without_role"),
    ],
)
def test_certificates_that_name_nobody(certificate: dict[str, object], reason: str) -> None:
    with pytest.raises(NotAuthenticated) as refused:
        identify(certificate)
    assert refused.value.reason == reason
