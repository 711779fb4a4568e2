"""`milepost console`: pages from here, answers from the broker, and nothing for other sites."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from stage.security import SECURED
from unit.cli.conftest import Line

from milepost import testing
from milepost.cli.console.console import make_server
from milepost.client.connection.endpoint import Endpoint
from milepost.rest.console.files import files


@contextmanager
def served(url: str, **options: bool) -> Iterator[int]:
    """The port on which the console of a broker is served."""
    server = make_server(Endpoint(admin_url=url, token="the operator's"), 0, **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with testing.broker(http=True) as broker, served(broker.http_url) as found:
        yield found


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
    """The status, the headers and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_every_page_is_served_with_its_headers(port: int) -> None:
    for path, file in files().items():
        status, headers, body = ask(port, "GET", f"/console/{path}")
        assert (status, body, headers["content-type"]) == (200, file.body, file.kind)
        assert headers["x-frame-options"] == "DENY"
        assert ask(port, "GET", f"/console/{path}", if_none_match=file.tag)[0] == 304
    assert ask(port, "GET", "/console/")[2] == files()["index.html"].body
    assert ask(port, "GET", "/")[1]["location"] == "console/"
    assert ask(port, "GET", "/docs")[1]["location"] == "console/docs.html"
    assert ask(port, "GET", "/console/none.js")[0] == 404


def test_what_the_pages_ask_goes_on_to_the_broker(port: int) -> None:
    status, headers, body = ask(port, "GET", "/milepost/v1/overview?limit=1")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body)["topics"] == 0
    assert ask(port, "GET", "/openapi.json")[0] == 200
    reset = "/milepost/v1/topics/public/default/none/subscriptions/x/reset"
    kind = "application/json"
    status, _, body = ask(port, "POST", reset, b'{"index": 0}', content_type=kind)
    assert (status, "reason" in json.loads(body)) == (404, True)


@pytest.mark.parametrize("path", ["/metrics", "/lookup/v2/topic/persistent/a/b/c", "/admin", "/x"])
def test_other_paths_stay_behind_the_broker(port: int, path: str) -> None:
    assert ask(port, "GET", path)[0] == 404


@pytest.mark.parametrize(
    "path", ["http://elsewhere/milepost/v1/overview", "//x/milepost/v1/overview"]
)
def test_a_path_names_no_other_host(port: int, path: str) -> None:
    assert ask(port, "GET", path, host=f"127.0.0.1:{port}")[0] in (400, 404)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "10.0.0.1:{port}"]
)
def test_a_name_that_is_not_this_machines_is_refused(port: int, host: str) -> None:
    for path in ("/console/", "/milepost/v1/overview"):
        assert ask(port, "GET", path, host=host.format(port=port))[0] == 403
    assert ask(port, "GET", "/console/", host=f"localhost:{port}")[0] == 200


def test_a_page_of_another_site_changes_nothing(port: int) -> None:
    path = "/milepost/v1/topics/public/default/none/subscriptions/x/reset"
    assert ask(port, "POST", path, b"{}", origin="http://evil.example")[0] == 403
    assert ask(port, "POST", path, b"{}", origin=f"http://127.0.0.1:{port}")[0] != 403
    assert ask(port, "POST", path, content_length=str(1024 * 1024 + 1))[0] == 413
    assert ask(port, "DELETE", path)[0] == 501


def test_the_operators_rights_are_not_lent() -> None:
    with testing.broker(http=True, **SECURED) as broker, served(broker.http_url) as port:
        assert ask(port, "GET", "/console/")[0] == 200
        status, headers, _ = ask(port, "GET", "/milepost/v1/overview")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")


def test_a_broker_that_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with served(url) as port:
        status, _, body = ask(port, "GET", "/milepost/v1/overview")
        assert status == 502
        assert json.loads(body)["reason"].startswith(f"{url} does not answer: ")


def test_a_broker_that_cannot_be_reached(line: Line) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    line("console", "--url", url, "--port", "0")
    assert line.code == 3
    assert f"cannot reach {url}: " in line.err


def test_a_port_that_is_taken(line: Line) -> None:
    # One that asks who is there says what it is in its refusal.
    with (
        testing.broker(http=True, **SECURED) as broker,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        number = taken.getsockname()[1]
        line("console", "--url", broker.http_url, "--port", str(number))
    assert line.code == 6
    assert "choose another --port" in line.err
