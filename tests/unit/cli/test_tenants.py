"""`milepost tenants`, `clusters` and `brokers`."""

from __future__ import annotations

from unit.cli.conftest import Line


def test_tenants(line: Line) -> None:
    line("tenants", "create", "acme", "-r", "a,b", "-c", "c1")
    assert (line.asked, line.body) == (
        ["PUT /admin/v2/tenants/acme"],
        {"adminRoles": ["a", "b"], "allowedClusters": ["c1"]},
    )
    line("tenants", "update", "acme", "-r", "c", answers=({"allowedClusters": ["c1"]},))
    assert line.body == {"adminRoles": ["c"], "allowedClusters": ["c1"]}
    line("tenants", "delete", "acme", "-f")
    assert line.asked == ["DELETE /admin/v2/tenants/acme?force=true"]


def test_clusters_and_brokers(line: Line) -> None:
    assert line("clusters", "list", answers=(["standalone"],)) == "standalone\n"
    assert line("brokers", "list", "standalone", answers=(["h:1"],)) == "h:1\n"
    assert line("brokers", "healthcheck", answers=(b"ok",)) == "ok\n"
    assert line("brokers", "version", answers=(b"4.2.4",)) == "4.2.4\n"
