"""The client's tests are coroutines on a broker that they share: harness.py."""

from client.harness import (
    connect,
    is_milepost,
    milepost_only,
    partition,
    port,
    pytest_pyfunc_call,
    running,
    service,
    topic,
)

__all__ = [
    "connect",
    "is_milepost",
    "milepost_only",
    "partition",
    "port",
    "pytest_pyfunc_call",
    "running",
    "service",
    "topic",
]
