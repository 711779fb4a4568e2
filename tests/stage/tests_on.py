"""What tests run on: `MILEPOST_TESTS_ON` is `embedded` (as a user starts a broker), `workers` or `bucket`.

Brokers in processes (`compat/broker_process.py`), those of the client's tests (`client/harness.py`) and those
on a stage (`stage.py`) heed it.
"""

from __future__ import annotations

import os
from typing import Final

EMBEDDED: Final = "embedded"
WORKERS: Final = "workers"
BUCKET: Final = "bucket"

TESTS_ON: Final = os.environ.get("MILEPOST_TESTS_ON") or EMBEDDED
if TESTS_ON not in (EMBEDDED, WORKERS, BUCKET):
    raise RuntimeError(f"MILEPOST_TESTS_ON={TESTS_ON}: embedded, workers or bucket")
