"""A broker as the suites of official clients expect one: fixed ports, TLS, tokens, passwords, namespaces.

It is started with the conf file that a suite brings for Apache Pulsar's standalone, where only the places of
files are changed, on this machine's own address.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from compat.broker_process import BrokerProcess

PORTS = (6650, 6651, 8080, 8443)
ADMIN = "http://127.0.0.1:8080/admin/v2"
MILEPOST = [sys.executable, "-m", "milepost.cli.main"]


def taken_ports() -> list[int]:
    """Those of the ports that somebody listens on."""
    found = []
    for port in PORTS:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found


def token(secret: Path, subject: str) -> str:
    command = [*MILEPOST, "tokens", "create", "--secret-key", str(secret), "--subject", subject]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def standalone(
    directory: Path, conf: Path, places: dict[str, Path], passwords: Path, secret: Path
) -> Iterator[BrokerProcess]:
    """`places`: beginnings of paths in the conf file, and where those files are here."""
    text = conf.read_text()
    for there, here in places.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(there)}", f"{here}/", text)
    used = directory / "standalone.conf"
    used.write_text(text)
    broker = BrokerProcess(directory / "broker", host="127.0.0.1", basic_auth_file=passwords)
    broker.port, broker.http_port = 6650, 8080
    broker.flags = ["--conf", str(used)]
    with broker:
        prepare(token(secret, "superUser"))
        yield broker


def prepare(superuser: str) -> None:
    """The tenants and namespaces that the set-up scripts of the suites make."""
    clusters = ["standalone"]
    may = ["produce", "consume"]
    ask = _Admin(superuser)
    ask("POST", "tenants/public", {"adminRoles": ["anonymous"], "allowedClusters": clusters})
    ask("POST", "namespaces/public/default/permissions/anonymous", may)
    for namespace, role in (("public/default-2", "anonymous"), ("private/auth", "token-principal")):
        tenant = namespace.partition("/")[0]
        if tenant == "private":
            ask("PUT", f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": clusters})
        grants = {"auth_policies": {"namespace_auth": {role: may}}}
        ask("PUT", f"namespaces/{namespace}", grants)


class _Admin:
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, method: str, path: str, body: object) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode()
        request = Request(f"{ADMIN}/{path}", data, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            assert answer.status in (200, 204), (path, answer.status)
