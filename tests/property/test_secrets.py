"""A secret that a client shows is in no log line and no answer, however it is shown, right or wrong."""

from __future__ import annotations

import ast
import asyncio
import base64
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stage.counts import examples
from stage.http import Answer, Request, call
from stage.security import SECRET, SECURED, bearer, shown, token
from stage.stage import TOPIC

import milepost
from milepost.broker.broker import Broker
from milepost.broker.settings.settings import Settings
from milepost.clock import SystemClock
from milepost.rest.app import create_app
from milepost.storage.engine import StorageEngine, open_store
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb

SOURCES = Path(milepost.__file__).parent
WORDS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
# What follows may be a word that answers have by themselves.
SECRETS = st.text(WORDS, min_size=12, max_size=40).map("q7Zx".__add__)
LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
SECRET_NAME = re.compile(
    r"token(?!s?_(id|count|file))|secret|passw|auth_data|private_key", re.IGNORECASE
)


class Heard(logging.Handler):
    """Every line that any logger writes, with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record) + repr(record.args))


@contextmanager
def listening() -> Iterator[list[str]]:
    heard, root = Heard(), logging.getLogger()
    level = root.level
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    try:
        yield heard.lines
    finally:
        root.removeHandler(heard)
        root.setLevel(level)


@pytest.fixture(scope="module")
def passwords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("passwords") / "users"
    path.write_text(f"user:{bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}\n")
    path.chmod(0o600)
    return path


def connects(secret: str) -> list[dict[str, Any]]:
    """Ways to show a secret in CONNECT."""
    signed = token(secret)
    head, body, signature = signed.split(".")
    return [
        {"auth_method_name": "token", "auth_data": secret.encode()},
        {"auth_method_name": "token", "auth_data": f"{head}.{secret}.{signature}".encode()},
        {"auth_method_name": "token", "auth_data": f"{head}.{body}.{secret}".encode()},
        {"auth_method_name": "basic", "auth_data": f"user:{secret}".encode()},
        {"auth_method_name": "basic", "auth_data": secret.encode()},
        {"auth_method_name": "none", "auth_data": secret.encode()},
        {**shown("writer"), "original_auth_data": secret, "original_auth_method": "token"},
    ]


def headers(secret: str) -> list[dict[str, str]]:
    """The same in a request."""
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    return [
        {"authorization": f"Bearer {secret}"},
        {"authorization": f"Bearer {token('x')}{secret}"},
        {"authorization": f"Basic {basic}"},
        {"authorization": f"Basic {secret}"},
        {"authorization": secret},
    ]


def _shows(secret: str, texts: list[str]) -> list[str]:
    hidden = (secret, base64.b64encode(f"user:{secret}".encode()).decode())
    return [text for text in texts if any(one in text for one in hidden)]


Look = Callable[[Broker], Awaitable[None]]


def ask(folder: Path, look: Look, *requests: Request, **options: Any) -> list[Answer]:
    """Start a secured broker, do something to it, send requests, give the answers."""

    async def run() -> list[Answer]:
        store, lock = open_store(folder, SystemClock())
        broker = Broker(
            Settings(data=folder, **SECURED, **options), StorageEngine(store, lock), SystemClock()
        )
        await broker.start()
        try:
            await look(broker)
            app = create_app(broker)
            return [await call(app, request) for request in requests]
        finally:
            await broker.close()

    return asyncio.run(run())


async def _show(broker: Broker, secret: str, said: list[str]) -> None:
    """Connect in all ways, then ask for something."""
    for fields in connects(secret):
        client = Loopback(broker, **fields)
        while broker._tasks:  # a password is judged in a thread
            await asyncio.wait(broker._tasks, timeout=10)
        said += [str(one) for one in client.take()]
        if not client.is_closing:
            client.say(pb.CommandLookupTopic(topic=TOPIC, request_id=1))
            said += [str(one) for one in client.take()]
            client.hang_up()


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(secret=SECRETS)
def test_what_a_client_shows_is_told_to_no_one(
    tmp_path: Path, passwords: Path, secret: str
) -> None:
    said: list[str] = []
    requests = [
        Request(*target.split(), b"{", shown_header)
        for target in ("GET /admin/v2/tenants", "GET /metrics", "PUT /admin/v2/tenants/x")
        for shown_header in headers(secret)
    ]
    with listening() as lines:
        answers = ask(
            tmp_path / "data",
            lambda broker: _show(broker, secret, said),
            *requests,
            basic_auth_file=str(passwords),
        )
    said += [f"{answer.headers} {answer.body!r}" for answer in answers]
    assert len(said) > len(answers)
    assert sum("not let in" in line for line in lines) >= len(connects("")), "refusals are logged"
    assert _shows(secret, said) == []
    assert _shows(secret, lines) == []


def test_the_broker_does_not_show_its_own(tmp_path: Path) -> None:
    shown_texts: list[str] = []

    async def look(broker: Broker) -> None:
        shown_texts.extend((repr(broker.settings), str(broker.settings)))

    path = "/admin/v2/brokers/configuration/runtime"
    with listening() as lines:
        (answer,) = ask(tmp_path / "data", look, Request("GET", path, b"", bearer("root")))
    assert answer.status == 200
    own = base64.b64encode(SECRET).decode()
    assert [text for text in (*shown_texts, answer.body.decode(), *lines) if own in text] == []


def secrets_logged(source: str) -> list[str]:
    """Log calls of a module that are handed something with the name of a secret."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LOG_CALLS
            and "log" in ast.unparse(node.func.value).lower()
        ):
            continue
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            names = [
                one.id if isinstance(one, ast.Name) else one.attr
                for one in ast.walk(value)
                if isinstance(one, ast.Name | ast.Attribute)
            ]
            if any(SECRET_NAME.search(name) for name in names):
                found.append(ast.unparse(node))
    return found


def test_a_log_call_that_names_a_secret_is_found() -> None:
    assert secrets_logged("logger.info('%s', self.token)")
    assert secrets_logged("self._log.debug('x', extra={'p': password})")
    assert secrets_logged("logger.error(f'{self.token} is wrong')")
    assert secrets_logged("logger.log(level, '%s' % secret)")
    assert not secrets_logged("logger.info('token: %s', role)")


def test_no_log_call_is_handed_a_secret() -> None:
    found = {
        str(path.relative_to(SOURCES)): calls
        for path in SOURCES.rglob("*.py")
        if (calls := secrets_logged(path.read_text()))
    }
    assert found == {}
