"""Clusters over REST."""

from __future__ import annotations

from stage.http import Web


def test_there_is_one_cluster(web: Web) -> None:
    assert web("GET /admin/v2/clusters").json == ["standalone"]
    found = web("GET /admin/v2/clusters/standalone").json
    assert found["brokerServiceUrl"] == "pulsar://127.0.0.1:6650"
    assert found["serviceUrl"] == "http://127.0.0.1:8080"
    assert web("GET /admin/v2/clusters/nowhere").status == 404
    assert web("GET /admin/v2/clusters/standalone/failureDomains").json == {}
    assert web("GET /admin/v2/clusters/nowhere/failureDomains").status == 404


def test_the_one_cluster_exists_and_no_other_is_made(web: Web) -> None:
    data = {"serviceUrl": "http://localhost:8080/"}
    assert web("PUT /admin/v2/clusters/standalone", data).status == 409
    other = web("PUT /admin/v2/clusters/elsewhere", data)
    assert (other.status, other.reason) == (405, "there is one cluster here, standalone")
