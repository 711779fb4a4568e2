"""The metrics of all workers as one text that Prometheus reads."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from milepost.rest.workers.metrics import merged

ONE = """# HELP a_total Of a.
# TYPE a_total counter
a_total 1.0
# HELP b Of b.
# TYPE b gauge
b{topic="x {y} z",cluster="c"} 2.0
"""
OTHER = """# HELP b Of b.
# TYPE b gauge
b{topic="x"} 3.0
# HELP h Of h.
# TYPE h histogram
h_bucket{le="1"} 1.0
h_count 1.0
h_sum 0.5
"""


def samples(text: str) -> dict[tuple[str, str, str], float]:
    return {
        (one.name, one.labels.get("worker", ""), one.labels.get("topic", "")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_every_line_has_its_worker_and_a_family_is_announced_once() -> None:
    text = merged({0: ONE, 1: OTHER})
    assert text.count("# TYPE b gauge") == text.count("# HELP b Of b.") == 1
    assert samples(text) == {
        ("milepost_worker_up", "0", ""): 1,
        ("milepost_worker_up", "1", ""): 1,
        ("a_total", "0", ""): 1,
        ("b", "0", "x {y} z"): 2,
        ("b", "1", "x"): 3,
        ("h_bucket", "1", ""): 1,
        ("h_count", "1", ""): 1,
        ("h_sum", "1", ""): 0.5,
    }


def test_a_worker_that_does_not_answer_is_down_and_the_others_are_told() -> None:
    found = samples(merged({0: None, 1: OTHER}))
    assert found["milepost_worker_up", "0", ""] == 0
    assert found["milepost_worker_up", "1", ""] == 1
    assert found["b", "1", "x"] == 3


def test_openmetrics_ends_once() -> None:
    text = merged(dict.fromkeys(range(2), "# TYPE b gauge\n# HELP b Of b.\nb 1.0\n# EOF\n"))
    assert text.count("# EOF") == 1
    assert [family.name for family in open_metrics(text)] == ["milepost_worker_up", "b"]
