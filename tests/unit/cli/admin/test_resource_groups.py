"""`milepost resourcegroups` and `milepost broker-stats` as in `pulsar-admin`."""

from __future__ import annotations

from unit.cli.conftest import Line

G = "/admin/v2/resourcegroups"
STATS = "/admin/v2/broker-stats"


def test_groups(line: Line) -> None:
    assert line("resourcegroups", "list", answers=(["a", "b"],)) == "a\nb\n"
    line("resourcegroups", "get", "g", answers=({"publishRateInMsgs": 5},))
    assert line.asked == [f"GET {G}/g"]
    line("resourcegroups", "create", "g", "-mp", "5", "-bd", "7", answers=(b"",))
    assert (line.asked, line.body) == (
        [f"PUT {G}/g"],
        {"publishRateInMsgs": 5, "dispatchRateInBytes": 7},
    )
    line("resourcegroups", "update", "g", "-md", "-1", answers=({}, b""))
    assert line.asked == [f"GET {G}/g", f"PUT {G}/g"]  # a PUT would make what is not there
    assert line.body == {"dispatchRateInMsgs": -1}
    line("resourcegroups", "delete", "g", answers=(b"",))
    assert line.asked == [f"DELETE {G}/g"]


def test_numbers(line: Line) -> None:
    for words, path in (
        ("monitoring-metrics", "metrics"),
        ("topics", "topics"),
        ("load-report", "load-report"),
    ):
        line("broker-stats", words, answers=({},))
        assert (line.code, line.asked) == (0, [f"GET {STATS}/{path}"])
