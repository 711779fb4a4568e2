"""The options of every command that asks a broker: URLs, TLS, credentials; and their order.

Each value comes from the first that has it: a flag, the context that `--context` names, `MILEPOST_…`
variables, the `client.conf` of `$MILEPOST_CLIENT_CONF` or `$PULSAR_CLIENT_CONF`, the current context,
the default. Owns that order; what it finds is an `Endpoint`, the same that pipelines and Spark use.

    @click.command(cls=RemoteCommand)
    def health() -> None:
        with connection().admin() as admin:
            click.echo(admin.check_health())
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from milepost.cli.connection.contexts import VARIABLE as CONTEXTS_VARIABLE
from milepost.cli.connection.contexts import load_contexts
from milepost.cli.connection.offers import OfferedContext
from milepost.cli.quantities import Number
from milepost.client.connection.endpoint import ADDRESSES, HTTP_URL_DEFAULT, Endpoint, first_of
from milepost.errors import InvalidInput, InvalidSetting, MissingFile

# Read by the command line, and by no broker.
VARIABLES = {
    "MILEPOST_ADMIN_URL": "admin_url",
    "MILEPOST_URL": "url",
    "MILEPOST_TOKEN": "token",
    "MILEPOST_TOKEN_FILE": "token_file",
}
CONTEXT_VARIABLE = "MILEPOST_CONTEXT"
CONF_VARIABLES = ("MILEPOST_CLIENT_CONF", "PULSAR_CLIENT_CONF")
# Says where a bug is, when there was one.
DEBUG_VARIABLE = "MILEPOST_DEBUG"
OF_THE_COMMAND_LINE = {
    *VARIABLES,
    *CONF_VARIABLES,
    CONTEXT_VARIABLE,
    CONTEXTS_VARIABLE,
    DEBUG_VARIABLE,
}

# Keys of Pulsar's client.conf; auth comes apart.
CONF_KEYS = {
    "webServiceUrl": "admin_url",
    "brokerServiceUrl": "url",
    "tlsTrustCertsFilePath": "tls_trust_certs",
    "tlsCertificateFilePath": "tls_certificate",
    "tlsKeyFilePath": "tls_key",
}

_KEPT = "milepost.connection"


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """An option may stand before or after the command's name; the later one holds."""
    if value not in (None, False):
        ctx.find_root().meta.setdefault(_KEPT, {})[param.name] = value


def connection_options(*, hidden: bool) -> list[click.Option]:
    def option(*names: str, **more: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep, hidden=hidden, **more)

    return [
        option("--admin-url", metavar="URL", help=f"The HTTP port.  [{HTTP_URL_DEFAULT}]"),
        option(
            "--url",
            metavar="URL",
            help="The binary port, pulsar://host:port.  [as the HTTP port tells it]",
        ),
        option(
            "--context",
            metavar="NAME",
            type=OfferedContext(),
            help="Take what is missing from that context.",
        ),
        option("--token", metavar="JWT", help="Who you are."),
        option("--token-file", metavar="FILE", help="The same, kept in a file."),
        option("--auth-plugin", metavar="NAME", help="As pulsar-admin's: token, basic or tls."),
        option(
            "--auth-params", metavar="TEXT", help="As pulsar-admin's: token:…, file:///…, JSON."
        ),
        option(
            "--tls-trust-cert-path",
            "tls_trust_certs",
            metavar="FILE",
            help="The certificate authorities to trust.",
        ),
        option("--tls-cert", "tls_certificate", metavar="FILE", help="A certificate of your own."),
        option("--tls-key", "tls_key", metavar="FILE", help="The key of that certificate."),
        option("--tls-allow-insecure", is_flag=True, help="Trust any server."),
        # Milepost always verifies names; the flag of pulsar-admin asks for nothing else.
        click.Option(
            ["--tls-enable-hostname-verification"], is_flag=True, hidden=True, expose_value=False
        ),
        option(
            "--request-timeout",
            type=Number(min=0.001),
            metavar="SECONDS",
            help="How long an answer may take.  [60]",
        ),
    ]


def connection() -> Endpoint:
    """The connection of this command line."""
    return resolve(flags_of(click.get_current_context()), os.environ)


def flags_of(ctx: click.Context) -> Mapping[str, Any]:
    """The options about the broker that a command line has, before the command's name or behind it."""
    flags: Mapping[str, Any] = ctx.find_root().meta.get(_KEPT, {})
    return flags


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Endpoint:
    """Each value from the first source that has it."""
    contexts = load_contexts()
    asked = flags.get("context")
    sources: list[Mapping[str, Any]] = [flags, _auth("--auth-params", **_auth_of(flags))]
    if asked:
        sources.append(_of_context(contexts.get(asked), sources))
    sources.append(
        {name: environ[variable] for variable, name in VARIABLES.items() if environ.get(variable)}
    )
    conf = next((environ[name] for name in CONF_VARIABLES if environ.get(name)), None)
    if conf:
        sources.append(_client_conf(Path(conf)))
    current = environ.get(CONTEXT_VARIABLE) or contexts.current
    if current and not asked:
        sources.append(_of_context(contexts.get(current), sources))
    values = first_of(sources)
    if "request_timeout" in flags:
        values["timeout_s"] = flags["request_timeout"]
    return Endpoint(**values)


def _of_context(one: Mapping[str, Any], sources: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a context gives. It names one broker: where a stronger source names another by either
    address, the context's other address would be that of a different broker."""
    if any(source.get(name) for source in sources for name in ADDRESSES):
        return {name: value for name, value in one.items() if name not in ADDRESSES}
    return one


def _client_conf(file: Path) -> dict[str, Any]:
    from milepost.cli.server import conf_text

    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise MissingFile(f"{file}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise InvalidSetting(f"{file}: cannot be read: {why}") from None
    read = {key: value for _, key, value in conf_text.conf_lines(text, file.name)}
    values: dict[str, Any] = {name: read[key] for key, name in CONF_KEYS.items() if read.get(key)}
    if read.get("tlsAllowInsecureConnection", "").lower() == "true":
        values["tls_allow_insecure"] = True
    auth = _auth(file.name, plugin=read.get("authPlugin", ""), params=read.get("authParams", ""))
    return {**values, **auth}


def _auth_of(flags: Mapping[str, Any]) -> dict[str, str]:
    return {"plugin": flags.get("auth_plugin", ""), "params": flags.get("auth_params", "")}


def _auth(where: str, *, plugin: str, params: str) -> dict[str, str]:
    """Pulsar's plugin and parameters: class names are known by the word in them."""
    if not params:
        return {}
    kind = next((one for one in _PLUGINS if one in plugin.lower()), None)
    if plugin and kind is None:
        raise InvalidInput(f"{where}: plugin {plugin!a}: expected one for token, basic or tls")
    try:
        return _PLUGINS[kind or _kind_of(params)](params)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{where}: the parameters are not what the plugin takes") from None


def _kind_of(params: str) -> str:
    if params.startswith("{"):
        return "basic" if "userId" in json.loads(params) else "token"
    return "tls" if params.startswith("tls") else "token"


def _token(params: str) -> dict[str, str]:
    if params.startswith("file:"):
        return {"token_file": params.removeprefix("file:").replace("//", "", 1)}
    if params.startswith("{"):
        return {"token": json.loads(params)["token"]}
    return {"token": params.removeprefix("token:")}


def _basic(params: str) -> dict[str, str]:
    if params.startswith("{"):
        document = json.loads(params)
        return {"user": document["userId"], "password": document["password"]}
    user, _, password = params.partition(":")
    return {"user": user, "password": password}


def _tls(params: str) -> dict[str, str]:
    pairs = dict(pair.split(":", 1) for pair in params.split(","))
    return {"tls_certificate": pairs["tlsCertFile"], "tls_key": pairs["tlsKeyFile"]}


_PLUGINS: dict[str, Callable[[str], dict[str, str]]] = {
    "token": _token,
    "basic": _basic,
    "tls": _tls,
}
