"""The verdict on a send: new, duplicate, or unknown.

Deduplication judges by sequence ids, chunked messages by uuid and chunk id; both answer with one of these.
"""

from __future__ import annotations

from enum import Enum


class SendVerdict(Enum):
    NEW = "new"
    """It is to be stored."""
    DUPLICATE = "duplicate"
    """It is stored: the producer gets a receipt, and nothing is stored again."""
    UNKNOWN = "unknown"
    """Its first copy is on its way to the disk, or was lost: the producer must send it again."""
