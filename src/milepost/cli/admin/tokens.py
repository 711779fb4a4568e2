"""`milepost tokens`: makes keys, signs and checks tokens.

Nothing here talks to a broker. A key is named as in the broker's settings: `file:///path`, a path,
`data:;base64,…`. A file with a secret in it is made for its owner alone.

    $ milepost tokens create-secret-key --output secret.key
    $ milepost tokens create --secret-key secret.key --subject reporter --expiry-time 30d
    eyJhbGciOi…
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.groups import Group
from milepost.cli.input_files import read_text
from milepost.cli.quantities import duration_s
from milepost.errors import InvalidInput, NotAuthenticated

if TYPE_CHECKING:
    from milepost.broker.auth.keys import Key

SECRET_ALGORITHMS = {"HS256": 32, "HS384": 48, "HS512": 64}
PAIR_ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA")
RSA_BITS = 2048

_FILE = click.Path(path_type=Path, dir_okay=False)

tokens = Group("tokens", help="Keys, and tokens signed with them. No broker is asked.")


# -- keys --------------------------------------------------------------------------------------------


@tokens.command("create-secret-key", help="Make a secret that signs tokens and verifies them.")
@click.option(
    "--signature-algorithm",
    "-a",
    type=click.Choice([*SECRET_ALGORITHMS]),
    default="HS256",
    help="What it signs with.  [HS256]",
)
@click.option("--output", "-o", type=_FILE, help="Write it there; else it is printed in base64.")
@click.option("--base64", "-b", "encode", is_flag=True, help="Base64 in the file as well.")
def create_secret_key(signature_algorithm: str, output: Path | None, encode: bool) -> None:
    key = secrets.token_bytes(SECRET_ALGORITHMS[signature_algorithm])
    if output is None:
        click.echo(base64.b64encode(key).decode())
    else:
        _write_private(output, base64.b64encode(key) if encode else key)


@tokens.command("create-key-pair", help="Make a private key that signs, and its public half.")
@click.option(
    "--signature-algorithm",
    "-a",
    type=click.Choice(PAIR_ALGORITHMS),
    default="RS256",
    help="What it signs with.  [RS256]",
)
@click.option(
    "--output-private-key", type=_FILE, required=True, help="Where to write the key that signs."
)
@click.option(
    "--output-public-key", type=_FILE, required=True, help="Where to write its public half."
)
def create_key_pair(
    signature_algorithm: str, output_private_key: Path, output_public_key: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    key = _new_pair(signature_algorithm)
    # DER, as upstream writes them.
    private = key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_private(output_private_key, private)
    output_public_key.write_bytes(public)


def _new_pair(algorithm: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    if algorithm in curves:
        return ec.generate_private_key(curves[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, RSA_BITS)


def _write_private(path: Path, data: bytes) -> None:
    """For the owner's eyes; a file that is there already stays, with whatever it has signed."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandFailed(
            f"{path} is there already; choose another file, or remove it", Exit.CONFLICT
        ) from None
    with open(file, "wb") as opened:
        opened.write(data)


# -- tokens ------------------------------------------------------------------------------------------


@tokens.command(help="Sign a token for a role, and print it.")
@click.option("--subject", "-s", required=True, help="The role.")
@click.option(
    "--expiry-time", "-e", metavar="TIME", help="From now: 30m, 12h, 30d, 1y. Without it, never."
)
@click.option("--secret-key", "-sk", metavar="KEY", help="The secret to sign with.")
@click.option("--private-key", "-pk", metavar="KEY", help="The private key to sign with.")
@click.option("--signature-algorithm", "-a", metavar="NAME", help="Else the usual one of the key.")
@click.option("--audience", metavar="NAME", help="Whom it is meant for (`aud`).")
def create(
    subject: str,
    expiry_time: str | None,
    secret_key: str | None,
    private_key: str | None,
    signature_algorithm: str | None,
    audience: str | None,
) -> None:
    from milepost.broker.auth.roles import check_role
    from milepost.broker.auth.tokens import sign

    key = _key(secret_key, private_key, "private")
    if signature_algorithm and signature_algorithm not in key.algorithms:
        raise InvalidInput(
            f"{signature_algorithm} is not for this key; there is {', '.join(key.algorithms)}"
        )
    claims: dict[str, Any] = {"sub": _role(check_role, subject)}
    if expiry_time is not None:
        seconds = duration_s(expiry_time)
        if seconds <= 0:
            raise InvalidInput(f"--expiry-time {expiry_time!a}: expected a time to come")
        claims["exp"] = int(time.time()) + seconds
    if audience:
        claims["aud"] = audience
    click.echo(sign(key, claims, signature_algorithm or ""))


def _role(check: Any, subject: str) -> str:
    try:
        return str(check(subject))
    except NotAuthenticated as error:
        raise InvalidInput(f"--subject: {error}") from None


def _token_options(command: Any) -> Any:
    """Where a token comes from, as upstream's commands have it."""
    for option in (
        click.argument("token", required=False),
        click.option("--token-file", "-f", type=_FILE, help="Read the token from a file."),
        click.option("--stdin", "-i", "from_stdin", is_flag=True, help="… or from standard input."),
    ):
        command = option(command)
    return command


@tokens.command(help="Print what a token says. Whether it is true is not looked at.")
@_token_options
def show(token: str | None, token_file: Path | None, from_stdin: bool) -> None:
    from milepost.broker.auth.tokens import peek

    header, claims = _or_fail(lambda: peek(_token(token, token_file, from_stdin)))
    click.echo(json.dumps(header))
    click.echo("---")
    click.echo(json.dumps(claims))


@tokens.command(help="Say whether a token would be let in, and as which role.")
@_token_options
@click.option("--secret-key", "-sk", metavar="KEY", help="The secret that the broker has.")
@click.option("--public-key", "-pk", metavar="KEY", help="The public key that the broker has.")
@click.option("--audience", metavar="NAME", help="The audience that the broker asks for.")
def validate(
    token: str | None,
    token_file: Path | None,
    from_stdin: bool,
    secret_key: str | None,
    public_key: str | None,
    audience: str | None,
) -> None:
    from milepost.broker.auth.tokens import TokenVerifier, peek

    key = _key(secret_key, public_key, "public")
    verifier = TokenVerifier(key, audience_claim="aud" if audience else "", audience=audience or "")
    text = _token(token, token_file, from_stdin)
    _or_fail(lambda: verifier.verify(text, int(time.time() * 1000)))
    click.echo(json.dumps(peek(text)[1]))


def _or_fail(work: Any) -> Any:
    try:
        return work()
    except NotAuthenticated as error:
        raise CommandFailed(str(error), Exit.AUTH) from None


def _token(token: str | None, file: Path | None, from_stdin: bool) -> str:
    """From one of the four places, the last of which is `TOKEN` in the environment, as upstream."""
    if token:
        return token.strip()
    if from_stdin:
        return sys.stdin.read().strip()
    if file is not None:
        return read_text(file).strip()
    if os.environ.get("TOKEN"):
        return os.environ["TOKEN"].strip()
    raise InvalidInput("no token: give it as an argument, by --token-file, --stdin or TOKEN")


def _key(secret: str | None, other: str | None, half: str) -> Key:
    """The key that a command names: the secret, or the private or public half of a pair."""
    from milepost.broker.auth import keys
    from milepost.broker.auth.files import read_reference

    if bool(secret) == bool(other):
        raise InvalidInput(f"expected one of --secret-key and --{half}-key")
    if secret:
        return keys.secret_key(read_reference(secret))
    read = keys.private_key if half == "private" else keys.public_key
    return read(read_reference(other or ""))
