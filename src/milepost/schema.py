"""`pulsar.schema` by its own name: `from milepost.schema import Record, String, JsonSchema`."""

from milepost.schemas import *  # noqa: F403
from milepost.schemas import __all__ as __all__
