"""Summary lines, as the crash campaigns have them; printed once when both run."""

from __future__ import annotations

import pytest
from crash import conftest as crash
from crash.conftest import summary

__all__ = ["summary"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    plugins = terminalreporter.config.pluginmanager.get_plugins()
    if not any(str(getattr(one, "__file__", "")) == crash.__file__ for one in plugins):
        crash.pytest_terminal_summary(terminalreporter)
