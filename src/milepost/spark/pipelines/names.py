"""The names of data files.

>>> data_path("persistent://public/default/t", 0, 90)[:51]
'data/5c270c2b2c19-0000000000000000-0000000000000090'
"""

from __future__ import annotations

import hashlib
import uuid


def data_path(topic: str, first_index: int, end_index: int) -> str:
    """Below a lake's directory. Never the same twice: a repeated attempt writes a file of its own."""
    name = hashlib.sha256(topic.encode()).hexdigest()[:12]
    return f"data/{name}-{first_index:016}-{end_index:016}-{uuid.uuid4().hex}.parquet"
