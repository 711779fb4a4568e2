"""What Spark finds by itself: it imports every package whose name begins with `pyspark_` and takes its
`DefaultSource`. Nothing else is here, since everybody who uses any Python data source imports it."""

from milepost.spark.source import MilepostSource as DefaultSource

__all__ = ["DefaultSource"]
