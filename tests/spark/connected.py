"""A Spark Connect client in a process of its own: `python -m spark.connected SETTINGS`, which are JSON.

Beside a session of the usual kind it would change what pyspark's functions mean. Writes one line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

import milepost.spark
from milepost.errors import NotAllowed
from milepost.spark.options import read_options
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.lake.lakes import KINDS
from milepost.spark.pipelines.replay import replay
from milepost.spark.pipelines.tasks import session
from milepost.spark.pipelines.verify import verify, verify_copy


def pipelines(spark: SparkSession, settings: dict[str, str]) -> list[object]:
    """Archive on and on until it is told to stop, in small steps that are merged; then there and back."""
    options = read_options(
        {
            "serviceUrl": settings["service_url"],
            "topic": settings["topic"],
            "maxMessagesPerTrigger": "20",
        }
    )
    said: list[object] = []
    for kind in KINDS:
        lake, copy = Path(settings["lakes"], kind), f"{settings['target']}-{kind}"
        stop = threading.Event()

        def on_step(done: int, total: int, stop: threading.Event = stop) -> None:
            if done == total:
                stop.set()

        done = archive(
            spark, options, lake, kind=kind, until=stop, every_s=0.1, files_min=2, on_step=on_step
        )
        replay(spark, options.connection, lake, copy, name="r")
        frame = milepost.spark.table(
            spark, settings["topic"], lake, serviceUrl=settings["service_url"]
        )
        said.append(
            {
                "archived": done.messages,
                "merged": done.merged > 0,
                "problems": [
                    *verify(spark, options.connection, lake).problems,
                    *verify_copy(spark, options.connection, lake, copy).problems,
                ],
                "table": frame.count(),
            }
        )
    return said


def main() -> None:
    settings = json.loads(sys.argv[1])
    spark = session(settings["remote"])
    options = {"serviceUrl": settings["service_url"], "topic": settings["topic"]}
    said: dict[str, object] = {
        "by_name": spark.read.format("milepost").options(**options).load().count()
    }
    milepost.spark.register(spark, push_filters=True)
    frame = spark.read.format("milepost").options(**options, pushFilters="true").load()
    said["filtered"] = [bytes(row.value).decode() for row in frame.where("index >= 28").collect()]
    try:
        milepost.spark.follow(spark, serviceUrl=settings["service_url"], subscription="s")
    except NotAllowed as error:
        said["follow"] = str(error)
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
    said["lakes"] = pipelines(spark, settings)
    print(json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
