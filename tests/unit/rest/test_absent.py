"""Every route of Apache Pulsar 4.2.4 is served, or its absence has a reason.

`pulsar_routes.txt` has the routes, as the annotations of its sources name them. Non-persistent topics have
all routes of persistent ones there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from stage.http import Web

from milepost.rest import absent
from milepost.rest.app import RESOURCES
from milepost.rest.route_access import operation_of

UPSTREAM = (Path(__file__).parent / "pulsar_routes.txt").read_text("utf-8").splitlines()
# Parts of paths that are not any text.
PARTS = {"bundle": "0x00000000_0xffffffff", "domain": "persistent"}


def routes(resource: object) -> list[APIRoute]:
    return [one for one in resource.router.routes if isinstance(one, APIRoute)]  # type: ignore[attr-defined]


SERVED = [route for resource in RESOURCES if resource is not absent for route in routes(resource)]
ABSENT = routes(absent)


def concrete(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: PARTS.get(found[1], "x"), path)


def fits(route: APIRoute, line: str) -> bool:
    method, _, path = line.partition(" ")
    return method in (route.methods or ()) and bool(route.path_regex.match(concrete(path)))


@pytest.mark.parametrize("line", UPSTREAM)
def test_every_route_of_apache_pulsar_is_served_or_said_to_be_absent(line: str) -> None:
    served = any(fits(route, line) for route in SERVED)
    missing = any(fits(route, line) for route in ABSENT)
    assert served or missing, "serve it, or give the reason in rest/absent.py"
    assert not (served and missing), "it is served: take its row from rest/absent.py"
    if line.partition(" ")[2].startswith("/admin/v2/persistent/"):
        volatile = line.replace("/persistent/", "/non-persistent/")
        assert any(fits(route, volatile) for route in SERVED)


@pytest.mark.parametrize("row", absent.TABLE, ids=lambda row: row.path)
def test_nothing_is_said_to_be_absent_that_nobody_has(row: absent.Row) -> None:
    for method in row.methods.split():
        below = [line for line in UPSTREAM if line.startswith(f"{method} {row.path}")]
        exact = [
            line
            for line in UPSTREAM
            if any(fits(one, line) for one in ABSENT if one.name == f"absent {row.path}")
        ]
        assert below or exact, (method, row.path)


def test_the_answer_says_why(web: Web) -> None:
    for row in absent.TABLE:
        path = re.sub(r"\{\w+\}", "standalone", row.path)
        if row.path.endswith("/"):
            path += "public/default"
        for method in row.methods.split():
            answer = web(f"{method} {path}")
            assert (answer.status, answer.reason) == (row.status, row.reason), (method, path)


def test_a_stranger_is_asked_who_it_is() -> None:
    assert {operation_of(route).name for route in ABSENT} == {"IDENTIFIED"}
