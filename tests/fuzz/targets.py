"""Targets: everything that reads bytes or text which somebody else wrote.

Each says what it may raise, and what its result must satisfy: reading is more than not crashing.
"""

from __future__ import annotations

from fuzz import disk_targets, rocketmq_targets, text_targets, wire_targets

TARGETS = (
    *wire_targets.TARGETS,
    *rocketmq_targets.TARGETS,
    *text_targets.TARGETS,
    *disk_targets.TARGETS,
)
