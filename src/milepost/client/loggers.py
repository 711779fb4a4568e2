"""The official package's loggers, by which users set how much the client logs.

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


class FileLogger:
    """Says so much and no more, to a file."""

    def __init__(self, log_level: LoggerLevel, log_file: str) -> None:
        self.log_level = LoggerLevel(log_level)
        self.handler = logging.FileHandler(log_file, encoding="utf-8", delay=True)
        self.handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))


def use(logger: ConsoleLogger | FileLogger | logging.Logger | None) -> None:
    """Let the client's log be as detailed as a logger asks; a logger of `logging` becomes its parent."""
    ours = logging.getLogger("milepost.client")
    if isinstance(logger, ConsoleLogger | FileLogger):
        levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
        ours.setLevel(levels[logger.log_level])
        if isinstance(logger, FileLogger):
            ours.addHandler(logger.handler)  # the same one once, however often
    elif isinstance(logger, logging.Logger):
        ours.parent = logger
