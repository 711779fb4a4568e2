"""RocketMQ's official Python client, whose log goes into a directory that is removed at the end.

It asks for the home directory when it is imported, and writes there whatever a test does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_home, _logs = os.environ.get("HOME"), tempfile.mkdtemp(prefix="rocketmq-logs-")
atexit.register(shutil.rmtree, _logs, ignore_errors=True)
os.environ["HOME"] = _logs
try:
    import rocketmq
finally:
    if _home is None:
        del os.environ["HOME"]
    else:
        os.environ["HOME"] = _home

__all__ = ["rocketmq"]
