"""The broker's settings over REST, as Apache Pulsar 4.2 answers."""

from __future__ import annotations

from stage.http import Web

CONFIG = "/admin/v2/brokers/configuration"


def test_settings_are_listed_changed_and_changed_back(web: Web) -> None:
    assert "maxProducersPerTopic" in web(f"GET {CONFIG}").json
    assert web(f"GET {CONFIG}/values").json == {}
    assert web(f"POST {CONFIG}/maxProducersPerTopic/7").status == 200
    assert web(f"GET {CONFIG}/values").json == {"maxProducersPerTopic": "7"}
    assert web(f"GET {CONFIG}/runtime").json["maxProducersPerTopic"] == "7"
    assert web(f"DELETE {CONFIG}/maxProducersPerTopic").status == 200
    assert web(f"GET {CONFIG}/runtime").json["maxProducersPerTopic"] == "0"


def test_settings_of_machinery_that_is_not_here_are_kept(web: Web) -> None:
    key = "loadBalancerSheddingExcludedNamespaces"
    assert key in web(f"GET {CONFIG}").json
    assert web(f"POST {CONFIG}/{key}/acme%2Fshop").status == 200
    assert web(f"GET {CONFIG}/values").json == {key: "acme/shop"}
    assert web(f"GET {CONFIG}/runtime").json[key] == "acme/shop"
    again = Web(web.stage.restarted())
    assert again(f"GET {CONFIG}/values").json == {key: "acme/shop"}
    assert again(f"POST {CONFIG}/{key}/{'x' * 5000}").status == 400
    assert again(f"DELETE {CONFIG}/{key}").status == 200
    assert again(f"GET {CONFIG}/values").json == {}


def test_a_limit_that_is_not_here_is_refused_by_name(web: Web) -> None:
    """To keep it would be to promise it."""
    refused = web(f"POST {CONFIG}/maxTenants/7")
    assert (refused.status, "'maxTenants'" in refused.reason) == (412, True)
    assert "maxTenants" not in web(f"GET {CONFIG}").json


def test_refusals(web: Web) -> None:
    fixed = web(f"POST {CONFIG}/clusterName/x")
    assert (fixed.status, "'clusterName' is not a setting" in fixed.reason) == (412, True)
    assert web(f"DELETE {CONFIG}/nosuch").status == 412
    wrong = web(f"POST {CONFIG}/maxProducersPerTopic/many")
    assert (wrong.status, "'many'" in wrong.reason) == (400, True)


def test_where_it_keeps_what_it_knows(web: Web) -> None:
    found = web("GET /admin/v2/brokers/internal-configuration").json
    assert found["metadataStoreUrl"].endswith("catalog.sqlite")


def test_quotas_are_looked_after_when_asked(web: Web) -> None:
    assert web("GET /admin/v2/brokers/backlog-quota-check").status == 204
