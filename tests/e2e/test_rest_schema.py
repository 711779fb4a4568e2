"""Two thousand requests made from the interface's own description: no 5xx, no answer it does not describe.

Half of the names in the paths are those of things that are there, or most requests would end at a missing
tenant. Each operation begins with the same things in place, whatever the one before destroyed.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from e2e.conftest import Serving

schemathesis = pytest.importorskip("schemathesis")
pytest.importorskip("schemathesis.specs.openapi.checks")

CASES = int(os.environ.get("MILEPOST_REST_CASES", "1000"))
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
]
KNOWN = {
    "domain": ["persistent"],
    "tenant": ["public", "acme"],
    "namespace": ["default", "shop"],
    "topic": ["t", "many", "many-partition-1"],
    "subscription": ["s"],
    "cluster": ["standalone"],
    "ledgerId": ["1"],
    "entryId": ["0", "1"],
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    broker = Serving(tmp_path_factory.mktemp("schema") / "data", "--log-level", "error")
    yield broker
    code, logged = broker.stop()
    assert code == 0
    assert "Traceback" not in logged, logged[-3000:]


def put(url: str, body: Any = None) -> None:
    data = json.dumps(body).encode() if body is not None else None
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, data, headers, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 409:  # it is there
                raise


def furnish(url: str) -> None:
    """What the paths name."""
    admin, topics = f"{url}/admin/v2", f"{url}/admin/v2/persistent/public/default"
    put(f"{admin}/tenants/acme", {"allowedClusters": ["standalone"]})
    put(f"{admin}/namespaces/public/default")
    put(f"{admin}/namespaces/acme/shop")
    put(f"{topics}/t")
    put(f"{topics}/many/partitions", 3)
    put(f"{topics}/t/subscription/s", "earliest")
    put(f"{topics}/many/subscription/s", "earliest")


def operations(url: str) -> list[Any]:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    return [result.ok() for result in schema.get_all_operations()]


def test_every_answer_is_described(serving: Serving) -> None:
    url = serving.ready["http_url"]
    found = operations(url)
    # They are registered when a description is first loaded.
    checks = schemathesis.checks.CHECKS.get_by_names(CHECKS)
    assert len(found) > 60
    asked = 0
    statuses: dict[int, int] = {}
    # Those that take nothing have one request to make; what they leave is shared by the others.
    found.sort(key=lambda one: len(list(one.iter_parameters())) + bool(list(one.body)))
    for number, operation in enumerate(found):
        furnish(url)
        each = -((asked - CASES) // (len(found) - number))

        @settings(
            max_examples=each,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), data=st.data())
        def ask(case: Any, data: Any) -> None:
            nonlocal asked
            for name in list(case.path_parameters or {}):
                if name in KNOWN and data.draw(st.integers(0, 3)):
                    case.path_parameters[name] = data.draw(st.sampled_from(KNOWN[name]))
            response = case.call(timeout=20)
            case.validate_response(response, checks=checks)
            asked += 1
            statuses[response.status_code] = statuses.get(response.status_code, 0) + 1

        ask()
    assert asked >= CASES * 0.97, asked  # the last one may have run out of examples
    assert statuses.get(200, 0) > CASES * 0.05, statuses
    assert statuses.get(204, 0) > CASES * 0.01, statuses


def test_a_request_outside_of_the_description_is_refused(serving: Serving) -> None:
    """Nothing is taken for something else: a path that is not described is not served."""
    url = serving.ready["http_url"]
    for path in ("/admin/v2/persistent/public/default/t/unheardOf", "/admin/v3/clusters", "/redoc"):
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(url + path, timeout=10)
        refused.value.close()
