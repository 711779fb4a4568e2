"""The format of log lines: text or JSON.

Owns the format only. Everything logs through the standard `logging`; values that belong to a record
are given as `extra={"topic": …}` and come out as fields. Nothing here, and nothing that logs, writes
payloads or credentials.

    2026-11-15T11:29:03.123Z INFO  broker.server: listening port=6650
    {"time": "2026-11-15T11:29:03.123Z", "level": "info", "logger": "broker.server", …}
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")

# What every record has; whatever else it carries was given as `extra`.
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}


class _Formatter(logging.Formatter):
    def when(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        return {name: value for name, value in vars(record).items() if name not in _STANDARD}

    def source(self, record: logging.LogRecord) -> str:
        return record.name.removeprefix("milepost.")


class TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_word(value)}" for name, value in self.fields(record).items())
        head = f"{self.when(record)} {record.levelname:<5} {self.source(record)}: "
        # A message may quote a peer: it stays on its line.
        line = (head + record.getMessage() + fields).replace("\n", "\\n").replace("\r", "\\r")
        return line + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


def _word(value: object) -> str:
    """A value as one word of the line: a name with blanks in it adds no fields."""
    text = str(value)
    is_plain = text and not any(one in ' "=' or not one.isprintable() for one in text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)


class JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": self.when(record),
            "level": record.levelname.lower(),
            "logger": self.source(record),
            "event": record.getMessage(),
            **self.fields(record),
        }
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


def name_worker(number: int) -> None:
    """Let every record of this process say which worker it is."""
    make = logging.getLogRecordFactory()

    def made(*args: Any, **values: Any) -> logging.LogRecord:
        record = make(*args, **values)
        record.worker = number
        return record

    logging.setLogRecordFactory(made)


def set_up(form: str, level: str, stream: TextIO | None = None) -> None:
    """Send every record of this process to one place, stderr unless told otherwise."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Uvicorn tells of each start and stop; that is the broker's to tell.
    logging.getLogger("uvicorn").setLevel(max(root.level, logging.WARNING))
