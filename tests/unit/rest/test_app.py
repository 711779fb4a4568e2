"""The application: its routes, and errors in one shape."""

from __future__ import annotations

import pytest

from rest.conftest import Ask


@pytest.mark.parametrize("path", ["/nothing", "/admin", "/admin/v2/nothing", "/redoc"])
def test_nothing_there_is_404(ask: Ask, path: str) -> None:
    (answer,) = ask(f"GET {path}")
    assert (answer.status, answer.reason) == (404, f"there is nothing at {path}")


def test_a_wrong_verb_is_405_and_says_which_are_right(ask: Ask) -> None:
    (answer,) = ask("POST /status.html")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert answer.reason == "POST is not for this; GET, HEAD, OPTIONS are"


def test_the_interface_describes_itself(ask: Ask) -> None:
    (answer,) = ask("GET /openapi.json")
    paths = answer.json["paths"]
    assert set(paths["/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions"]) == {
        "delete",
        "get",
        "post",
        "put",
    }
    assert "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}" in paths


def test_a_bad_value_is_named_and_not_repeated(ask: Ask) -> None:
    (answer,) = ask("GET /admin/v2/persistent/a/b/c/partitions?checkAllowAutoCreation=secret")
    assert answer.status == 400
    assert answer.reason.startswith("query checkAllowAutoCreation: ")
    assert "secret" not in answer.reason
