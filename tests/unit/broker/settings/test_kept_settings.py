"""Settings that are kept: none of them is a setting of this broker."""

from __future__ import annotations

import pytest

from milepost.broker.settings import kept_settings
from milepost.broker.settings.settings import TABLE
from milepost.errors import InvalidSetting


def test_none_is_a_setting_that_acts() -> None:
    acting = {alias.key for one in TABLE.values() for alias in one.aliases} | set(TABLE)
    assert not kept_settings.NAMES & acting
    assert "loadBalancerSheddingExcludedNamespaces" in kept_settings.NAMES


def test_a_value_has_a_length() -> None:
    kept_settings.check("a", "x" * kept_settings.VALUE_LENGTH_MAX)
    with pytest.raises(InvalidSetting, match="longer than 4096"):
        kept_settings.check("a", "x" * (kept_settings.VALUE_LENGTH_MAX + 1))
