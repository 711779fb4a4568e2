"""The proposals are tested on a broker without a socket, a disk or a clock of its own; the client's part of
them (`test_*_client.py`) with a client and a real one."""

from client.harness import (
    connect,
    is_milepost,
    milepost_only,
    pytest_pyfunc_call,
    running,
    service,
    topic,
)
from stage.fixtures import make_stage, stage

__all__ = [
    "connect",
    "is_milepost",
    "make_stage",
    "milepost_only",
    "pytest_pyfunc_call",
    "running",
    "service",
    "stage",
    "topic",
]
