"""`milepost tenants` and `clusters`."""

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


def test_clusters(line: Line) -> None:
    assert line("clusters", "list", answers=(["standalone"],)) == "standalone\n"
