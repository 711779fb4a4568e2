"""The official package's loggers: here they set how much the client says to `logging`.

Client(url, logger=ConsoleLogger(LoggerLevel.Warn))
"""

from __future__ import annotations

import logging
from enum import IntEnum


class LoggerLevel(IntEnum):
    Debug = 0
    Info = 1
    Warn = 2
    Error = 3


class ConsoleLogger:
    """Says so much and no more, wherever the program sends its log."""

    def __init__(self, log_level: LoggerLevel = LoggerLevel.Info) -> None:
        self.log_level = LoggerLevel(log_level)


def use(logger: ConsoleLogger | logging.Logger | None) -> None:
    """Let the client's log be as detailed as a logger asks; a logger of `logging` becomes its parent."""
    ours = logging.getLogger("milepost.client")
    if isinstance(logger, ConsoleLogger):
        levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
        ours.setLevel(levels[logger.log_level])
    elif isinstance(logger, logging.Logger):
        ours.parent = logger
