"""TLS between brokers: both sides show a certificate that the other one trusts, or nothing is said."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from stage.certificates import Authority, Issued
from stage.unclosed import run_and_collect

from milepost.errors import InvalidSetting
from milepost.storage.cluster.link_tls import LinkTls


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority("of the cluster")
    (tmp_path / "ca.pem").write_bytes(made.pem)
    return made


def ends(folder: Path, issued: Issued, name: str) -> LinkTls:
    files = issued.write(folder, name)
    return LinkTls(files.certificate, files.key, folder / "ca.pem")


def exchange(server: LinkTls, client: ssl.SSLContext | None, host: str = "127.0.0.1") -> bytes:
    """What a peer answers to a word; empty if it hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readexactly(4)).upper())
        await writer.drain()
        writer.close()

    async def play() -> bytes:
        listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server.server())
        try:
            port = listening.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client, server_hostname=host if client else None
            )
            try:
                writer.write(b"word, and enough of it for a record of TLS")
                return await asyncio.wait_for(reader.read(4), 10)
            except TimeoutError:
                raise
            except OSError:  # turned away: in the middle of the handshake, or behind it
                return b""
            finally:
                writer.close()
        finally:
            listening.close()

    return run_and_collect(play())


def test_brokers_of_one_authority_talk(tmp_path: Path, authority: Authority) -> None:
    one = ends(tmp_path, authority.issue("one", is_server=True), "one")
    other = ends(tmp_path, authority.issue("other", is_server=True), "other")
    assert exchange(one, other.client()) == b"WORD"


def test_strangers_hear_nothing(tmp_path: Path, authority: Authority) -> None:
    one = ends(tmp_path, authority.issue("one", is_server=True), "one")
    stranger = Authority("another")
    files = stranger.issue("x", is_server=True).write(tmp_path, "x")
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    assert exchange(one, trusting) == b"", "it shows none"
    trusting.load_cert_chain(*files)
    assert exchange(one, trusting) == b"", "it shows a foreign one"
    foreign = LinkTls(*files, tmp_path / "ca.pem")
    other = ends(tmp_path, authority.issue("other", is_server=True), "other")
    with pytest.raises(ssl.SSLCertVerificationError):  # it is shown one
        exchange(foreign, other.client())


def test_the_certificate_is_of_the_address(tmp_path: Path, authority: Authority) -> None:
    one = ends(tmp_path, authority.issue("one", is_server=True), "one")
    other = ends(tmp_path, authority.issue("other", is_server=True), "other")
    with pytest.raises(ssl.SSLCertVerificationError, match="broker-3"):
        exchange(one, other.client(), "broker-3")


def test_what_is_said_in_the_clear_is_not_heard(tmp_path: Path, authority: Authority) -> None:
    one = ends(tmp_path, authority.issue("one", is_server=True), "one")
    assert exchange(one, None) == b""


def test_files_that_change_are_taken_and_broken_ones_are_not(
    tmp_path: Path, authority: Authority
) -> None:
    one = ends(tmp_path, authority.issue("one", is_server=True), "one")
    other = ends(tmp_path, authority.issue("other", is_server=True), "other")
    (tmp_path / "ca.pem").write_bytes(b"nothing of use")
    assert exchange(one, other.client()) == b"WORD"
    renewed = Authority("renewed")
    (tmp_path / "ca.pem").write_bytes(renewed.pem)
    for name in ("one", "other"):
        renewed.issue(name, is_server=True).write(tmp_path, name)
    assert exchange(one, other.client()) == b"WORD"
    old = authority.issue("old", is_server=True)
    context = ssl.create_default_context(cadata=renewed.pem.decode())
    context.load_cert_chain(*old.write(tmp_path, "old"))
    assert exchange(one, context) == b""


def test_a_revoked_broker_is_a_stranger(tmp_path: Path, authority: Authority) -> None:
    one = ends(tmp_path, authority.issue("one", is_server=True), "one")
    lost = authority.issue("lost", is_server=True)
    other = ends(tmp_path, lost, "lost")
    context = other.client()  # as it was before the list
    (tmp_path / "ca.pem").write_bytes(authority.pem + authority.revoke(lost))
    assert exchange(one, context) == b""


@pytest.mark.parametrize(
    ("break_", "says"),
    [
        (lambda folder: (folder / "one.key").write_bytes(b""), "not a certificate with its key"),
        (
            lambda folder: (folder / "one.pem").unlink(),
            "not a certificate with its key: No such file",
        ),
        (lambda folder: (folder / "ca.pem").write_bytes(b"x"), "no certificates of authorities"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, authority: Authority, break_: Callable[[Path], object], says: str
) -> None:
    files = authority.issue("one", is_server=True).write(tmp_path, "one")
    break_(tmp_path)
    with pytest.raises(InvalidSetting, match=says):
        LinkTls(files.certificate, files.key, tmp_path / "ca.pem")
