"""A Spark Connect client in a process of its own: `python -m spark.connected SETTINGS`, which are JSON.

Beside a session of the usual kind it would change what pyspark's functions mean. Writes one line of JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import milepost.spark


def main() -> None:
    settings = json.loads(sys.argv[1])
    spark = SparkSession.builder.remote(settings["remote"]).getOrCreate()
    options = {"serviceUrl": settings["service_url"], "topic": settings["topic"]}
    said = {"by_name": spark.read.format("milepost").options(**options).load().count()}
    milepost.spark.register(spark, push_filters=True)
    frame = spark.read.format("milepost").options(**options, pushFilters="true").load()
    said["filtered"] = [bytes(row.value).decode() for row in frame.where("index >= 28").collect()]
    stream = spark.readStream.format("milepost").options(**options, maxMessagesPerTrigger=20).load()
    query = (
        milepost.spark.arrange(stream.select("index", "value"), "index", tasks=2)
        .writeStream.format("milepost")
        .options(serviceUrl=settings["service_url"], topic=settings["target"])
        .options(delivery="exactlyOnce", uniqueKey="index")
        .option("checkpointLocation", settings["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    said["ended"] = query.awaitTermination(200)
    print(json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
