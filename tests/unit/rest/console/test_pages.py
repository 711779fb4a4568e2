"""The console's files over HTTP: where they are, their headers, and that nothing leads elsewhere."""

from __future__ import annotations

import re

import pytest
from stage.security import SECURED

from milepost.rest.console.files import files
from rest.conftest import Ask, Request


@pytest.mark.parametrize("path", ["/", "/console"])
def test_leads_to_the_console_below_any_prefix(ask: Ask, path: str) -> None:
    (answer,) = ask(f"GET {path}")
    assert (answer.status, answer.headers["location"]) == (307, "console/")


def test_the_page_about_the_routes_needs_no_network(ask: Ask) -> None:
    (answer, page, script) = ask("GET /docs", "GET /console/docs.html", "GET /console/docs.js")
    assert (answer.status, answer.headers["location"]) == (307, "console/docs.html")
    assert (page.status, script.status) == (200, 200)


def test_every_file_is_served_with_headers_that_keep_other_sites_out(ask: Ask) -> None:
    paths = sorted(files())
    assert {"index.html", "style.css", "app.js"} <= set(paths)
    for path, answer in zip(paths, ask(*(f"GET /console/{path}" for path in paths)), strict=True):
        assert (answer.status, answer.body) == (200, files()[path].body)
        assert answer.headers["content-type"] == files()[path].kind
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_what_is_unchanged_is_not_sent_again(ask: Ask) -> None:
    tag = files()["index.html"].tag
    (same, among, other) = ask(
        Request("GET", "/console/", headers={"if-none-match": tag}),
        Request("GET", "/console/", headers={"if-none-match": f'"x", W/{tag}'}),
        Request("GET", "/console/", headers={"if-none-match": '"x"'}),
    )
    assert [one.status for one in (same, among, other)] == [304, 304, 200]
    assert same.body == b""
    assert same.headers["etag"] == tag


@pytest.mark.parametrize(
    "path", ["none.js", "../pages.py", "..%2fpages.py", "static/index.html", "%2e%2e/files.py"]
)
def test_nothing_else_is_served(ask: Ask, path: str) -> None:
    (answer,) = ask(f"GET /console/{path}")
    assert answer.status == 404


def test_the_files_are_served_to_those_who_have_not_signed_in(ask: Ask) -> None:
    (answer,) = ask("GET /console/", **SECURED)
    assert answer.status == 200


def test_nothing_leads_elsewhere_and_nothing_is_inline() -> None:
    page = files()["index.html"].body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", page)
    for path, file in files().items():
        text = file.body.decode()
        links = re.findall(r"""(?:src|href|from|import\()\s*=?\s*\(?["']([^"'#]+)["']""", text)
        assert not [link for link in links if re.match(r"(?:[a-z]+:)?//|/", link)], path
        assert "innerHTML" not in text, path
