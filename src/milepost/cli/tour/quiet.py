"""Keeps the output of child processes in a file, shown if they fail.

Spark's JVM greets with a dozen lines on standard error, and keeps the one that it was started with.

with quiet():
    start_the_jvm()
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Standard error of this process, and of what it starts meanwhile, is kept back; not when debugging."""
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        has_failed = False
        try:
            yield
        except Exception:  # a person who pressed Ctrl-C wants no traceback of what it met
            has_failed = True
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            if has_failed:
                file.seek(0)
                os.write(2, file.read())
