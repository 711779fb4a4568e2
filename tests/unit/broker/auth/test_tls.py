"""TLS contexts, replaced while connections live on. Handshakes are made in memory."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

import pytest
from stage.certificates import Authority, Issued

from milepost.broker.auth.tls import ListenerContext, TlsFiles
from milepost.errors import InvalidSetting


class _Ends:
    """A client and a server that share no socket."""

    def __init__(self, listener: ListenerContext, client: ssl.SSLContext) -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(to_client, to_server, server_hostname="localhost")
        self.server = listener.wrap_bio(to_server, to_client, server_side=True)

    def shake_hands(self) -> None:
        waiting = [self.client, self.server]
        for _ in range(10):
            for end in list(waiting):
                try:
                    end.do_handshake()
                    waiting.remove(end)
                except ssl.SSLWantReadError:
                    pass
        if not waiting:
            self.client.write(b"hello")
            assert self.server.read(5) == b"hello"
        assert not waiting


@pytest.fixture
def authority() -> Authority:
    return Authority("one")


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> TlsFiles:
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    server = authority.issue("localhost", is_server=True).write(tmp_path, "server")
    return TlsFiles(server.certificate, server.key, tmp_path / "ca.pem", False)


def _client(authority: Authority, tmp_path: Path, issued: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if issued is not None:
        context.load_cert_chain(*issued.write(tmp_path, "client"))
    return context


def test_a_certificate_is_welcome_and_not_needed(
    tmp_path: Path, authority: Authority, files: TlsFiles
) -> None:
    listener = ListenerContext(files, pytest.fail)
    ends = _Ends(listener, _client(authority, tmp_path, authority.issue("carol")))
    ends.shake_hands()
    assert ends.server.getpeercert()["subject"] == ((("commonName", "carol"),),)  # type: ignore[index]
    without = _Ends(listener, _client(authority, tmp_path))
    without.shake_hands()
    assert not without.server.getpeercert()


def test_older_versions_are_not_spoken(
    tmp_path: Path, authority: Authority, files: TlsFiles
) -> None:
    failures: list[ssl.SSLError] = []
    client = _client(authority, tmp_path)
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        _Ends(ListenerContext(files, failures.append), client).shake_hands()
    assert failures


@pytest.mark.parametrize("which", ["a stranger's", "expired", "revoked", "none, where needed"])
def test_certificates_that_are_refused(
    which: str, tmp_path: Path, authority: Authority, files: TlsFiles
) -> None:
    issued: Issued | None = authority.issue("carol", expired=which == "expired")
    if which == "a stranger's":
        issued = Authority("two").issue("carol")
    elif which == "revoked":
        assert issued is not None
        assert files.trusted is not None
        files.trusted.write_bytes(authority.pem + authority.revoke(issued))
    elif which == "none, where needed":
        issued, files = None, files._replace(require=True)
    failures: list[ssl.SSLError] = []
    listener = ListenerContext(files, failures.append)
    with pytest.raises((ssl.SSLError, AssertionError)):
        _Ends(listener, _client(authority, tmp_path, issued)).shake_hands()
    assert len(failures) == 1


def test_a_certificate_that_others_revoked_is_fine(
    tmp_path: Path, authority: Authority, files: TlsFiles
) -> None:
    assert files.trusted is not None
    files.trusted.write_bytes(authority.pem + authority.revoke(authority.issue("mallory")))
    carol = authority.issue("carol")
    _Ends(ListenerContext(files, pytest.fail), _client(authority, tmp_path, carol)).shake_hands()


def test_changed_files_are_for_new_connections_and_old_ones_live_on(
    tmp_path: Path, authority: Authority, files: TlsFiles
) -> None:
    listener = ListenerContext(files, lambda error: None)
    assert not listener.reload()
    old = _Ends(listener, _client(authority, tmp_path, authority.issue("carol")))
    old.shake_hands()
    other = Authority("two")
    other.issue("localhost", is_server=True).write(tmp_path, "server")
    assert files.trusted is not None
    files.trusted.write_bytes(other.pem)
    assert listener.reload()
    new = _Ends(listener, _client(other, tmp_path, other.issue("dave")))
    new.shake_hands()
    assert new.server.getpeercert()["subject"] == ((("commonName", "dave"),),)  # type: ignore[index]
    # Whom only the old authority knows is a stranger now; whoever is connected stays.
    client = _client(other, tmp_path, authority.issue("carol"))
    with pytest.raises((ssl.SSLError, AssertionError)):
        _Ends(listener, client).shake_hands()
    old.client.write(b"still")
    assert old.server.read(5) == b"still"


def test_broken_files_change_nothing(
    tmp_path: Path, authority: Authority, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    listener = ListenerContext(files, pytest.fail)
    files.certificate.write_text("half a cert")
    assert not listener.reload()
    assert "goes on with what it has" in caplog.text
    _Ends(listener, _client(authority, tmp_path)).shake_hands()


@pytest.mark.parametrize("broken", ["certificate", "key", "trusted"])
def test_broken_files_do_not_start(broken: str, files: TlsFiles) -> None:
    getattr(files, broken).write_text("nothing")
    with pytest.raises(InvalidSetting):
        ListenerContext(files, pytest.fail)


def test_a_key_of_another_certificate_does_not_start(
    tmp_path: Path, authority: Authority, files: TlsFiles
) -> None:
    files.key.write_bytes(authority.issue("x").key_pem)
    with pytest.raises(InvalidSetting, match="not a certificate with its key"):
        ListenerContext(files, pytest.fail)
