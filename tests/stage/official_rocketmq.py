"""RocketMQ's official Python client, whose log goes into a directory that is removed at the end.

It asks for the home directory when it is imported, and writes there whatever a test does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from asyncio import set_event_loop
from typing import Any

_home, _logs = os.environ.get("HOME"), tempfile.mkdtemp(prefix="rocketmq-logs-")
atexit.register(shutil.rmtree, _logs, ignore_errors=True)
os.environ["HOME"] = _logs
try:
    import rocketmq
    from rocketmq.v5.client.connection.rpc_client import RpcClient
finally:
    if _home is None:
        del os.environ["HOME"]
    else:
        os.environ["HOME"] = _home

__all__ = ["rocketmq", "started"]


def started(client: Any) -> Any:
    """The client, started. It asks this thread for an event loop if an answer is there before it waits,
    and a thread that has run a loop of its own to the end has none."""
    set_event_loop(RpcClient.get_channel_io_loop())
    client.startup()
    return client
