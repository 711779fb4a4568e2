"""The audit log."""

from __future__ import annotations

import logging

import pytest
from stage.http import Web


def test_a_change_is_a_line_with_what_was_and_is(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "milepost.audit"):
        web("PUT many/partitions", 3)
        web("GET many/partitions")
        web("PUT many/partitions", 3)
    lines = [one.getMessage() for one in caplog.records if one.name == "milepost.audit"]
    assert lines == [
        "create-partitioned-topic persistent://public/default/many by 127.0.0.1 partitions=3"
    ]


def test_a_list_is_told_in_its_words(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "milepost.audit"):
        web("POST /admin/v2/namespaces/public/default/permissions/app", ["produce", "consume"])
    (line,) = [one.getMessage() for one in caplog.records if one.name == "milepost.audit"]
    assert line.endswith(" role=app actions=consume,produce")
