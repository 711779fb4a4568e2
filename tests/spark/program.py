"""A Spark program for a process of its own: `python -m spark.program SETTINGS`, which are JSON.

It runs the jobs that it is given one after another and writes a line of JSON for each: what came of it, or
`error`. Whoever started it may kill it at any moment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tidy.snippets import blocks

import milepost.spark
from milepost.spark.options import read_options
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.replay import replay
from milepost.spark.pipelines.verify import verify, verify_copy

SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(master: str, executor_path: str | None) -> SparkSession:
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", SMALL_JVM)
        .config("spark.executor.extraJavaOptions", SMALL_JVM)
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
    )
    if executor_path is not None:
        builder = builder.config("spark.executorEnv.PYTHONPATH", executor_path)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    milepost.spark.register(made)
    return made


def count(spark: SparkSession, ship: str | None = None, **options: Any) -> dict[str, Any]:
    if ship is not None:
        exec(
            _shipping().replace('"milepost.zip"', repr(ship)),
            {"spark": spark, "milepost": milepost},
        )
    frame = spark.read.format("milepost").options(**options).load()
    return {"count": frame.count(), "package": milepost.__file__}


def _shipping() -> str:
    """How docs/spark.md gives the wheel to executors."""
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    (found,) = [one.text for one in blocks("docs/spark.md", page) if "addPyFile" in one.text]
    return found


def copy(
    spark: SparkSession, read: dict[str, Any], write: dict[str, Any], unique_key: str | None = None
) -> dict[str, Any]:
    frame = spark.readStream.format("milepost").options(**read).load()
    if unique_key is not None:
        frame = milepost.spark.arrange(frame.repartition(2), unique_key, tasks=2)
        write = {**write, "uniqueKey": unique_key}
    query = frame.writeStream.format("milepost").options(**write).trigger(availableNow=True).start()
    query.awaitTermination()
    return {"rows": sum(one["numInputRows"] for one in query.recentProgress)}


def split(
    spark: SparkSession, read: dict[str, Any], write: dict[str, Any], topics: list[str]
) -> dict[str, Any]:
    """Every message to all of these topics, behind a shuffle."""
    frame = spark.readStream.format("milepost").options(**read).load()
    names = ", ".join(f"'{name}'" for name in topics)
    rows = frame.selectExpr("value", f"explode(array({names})) AS topic").repartition(3)
    query = rows.writeStream.format("milepost").options(**write).trigger(availableNow=True).start()
    query.awaitTermination()
    return {"rows": sum(one["numInputRows"] for one in query.recentProgress)}


def lake(spark: SparkSession, directory: str, kind: str, **options: Any) -> dict[str, Any]:
    given = read_options(options)
    done = archive(spark, given, Path(directory), kind=kind, files_min=2)
    proof = verify(spark, given.connection, Path(directory))
    return {
        "archived": done.messages,
        "merged": done.merged > 0,
        "verified": proof.messages,
        "problems": proof.problems,
    }


def whole_way(spark: SparkSession, directory: str, rows: int, **options: Any) -> dict[str, Any]:
    """Everything that talks to a broker, with the same options: sink, source, stream, the pipelines."""
    topic = options.pop("topic")
    made = spark.range(0, rows, 1, 2).selectExpr("id", "CAST(id AS STRING) AS value")
    once = {"delivery": "exactlyOnce", "producerPrefix": "whole", "uniqueKey": "id"}
    write = milepost.spark.arrange(made, "id", tasks=2).write.format("milepost")
    write.options(**options, **once, topic=topic).mode("append").save()
    read = spark.read.format("milepost").options(**options, topic=topic, minPartitions=2).load()
    stream = {**options, "topic": topic, "subscription": "s", "maxMessagesPerTrigger": rows // 2}
    target = {**options, "topic": f"{topic}-streamed", "delivery": "exactlyOnce"}
    checkpoint = f"{directory}/checkpoint"
    found = {
        "read": read.count(),
        "streamed": copy(spark, stream, {**target, "checkpointLocation": checkpoint})["rows"],
    }
    given = read_options({**options, "topic": topic})
    copied = f"{given.topics[0]}-replayed"
    place = Path(directory, "lake")
    return found | {
        "archived": archive(spark, given, place).messages,
        "verified": verify(spark, given.connection, place).messages,
        "replayed": replay(spark, given.connection, place, copied, name="r").sent,
        "problems": verify_copy(spark, given.connection, place, copied).problems,
    }


JOBS = {"count": count, "copy": copy, "split": split, "lake": lake, "whole_way": whole_way}


def main() -> None:
    settings = json.loads(sys.argv[1])
    spark = session(settings["master"], settings.get("executor_path"))
    print(json.dumps({"ready": True}), flush=True)
    for job in settings["jobs"]:
        try:
            said = JOBS[job.pop("job")](spark, **job)
        except PySparkException as error:
            said = {"error": str(error)}
        print(json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
