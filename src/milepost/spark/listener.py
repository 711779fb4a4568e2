"""Stores the last progress of a query in its subscription when the query ends.

Spark tells a source that a batch is done while it makes the next one, so of the last batch of a run it never
hears. A listener hears of every batch. It speaks once, when the query has ended: until then the query itself
holds the subscription.

    spark.streams.addListener(ProgressListener(Endpoint(url=url), "etl"))
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import InvalidCheckpoint, MilepostError
from milepost.spark.offsets import Offsets, from_json
from milepost.spark.progress_subscription import Pin

logger = logging.getLogger(__name__)


class ProgressListener(StreamingQueryListener):
    """For the queries of one subscription."""

    def __init__(self, connection: Endpoint, subscription: str) -> None:
        self._connection = connection
        self._subscription = subscription
        # By run, what its last batch ended at.
        self._ends: dict[str, Offsets] = {}

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        for source in event.progress.sources:
            try:
                self._ends[str(event.progress.runId)] = from_json(source.endOffset)
            except (InvalidCheckpoint, TypeError):
                continue  # another kind of source

    def onQueryTerminated(self, event: Any) -> None:
        end = self._ends.pop(str(event.runId), None)
        if end is None:
            return
        pin = Pin(self._connection, self._subscription)
        try:
            pin.advance(end)
        except MilepostError as error:
            # The checkpoint knows better than the subscription, and the next run acks it.
            logger.warning("the last progress of %s was not written: %s", self._subscription, error)
        finally:
            pin.close()
