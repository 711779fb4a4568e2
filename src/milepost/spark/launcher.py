"""Makes Python workers import the installed PySpark, which starts them faster.

Spark puts `pyspark.zip` before everything else that its Python processes import. The archive is not compiled,
so each process compiles what it imports: three quarters of the second that a streaming query waits for the
process that plans it. The same modules lie compiled beside it where PySpark was installed as a package.

    with installed_pyspark(spark):
        spark.dataSource.register(MilepostSource)      # its processes start by the launcher
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Leaves the archives out of the path and becomes the interpreter.
_SCRIPT = """#!/bin/sh
IFS=:
kept=
for one in $PYTHONPATH; do
  case $one in
    */python/lib/pyspark.zip | */python/lib/py4j-*.zip) ;;
    *) kept=$kept${{kept:+:}}$one ;;
  esac
done
PYTHONPATH=$kept
export PYTHONPATH
exec {python} "$@"
"""


@contextmanager
def installed_pyspark(spark: SparkSession) -> Iterator[None]:
    """Let what is registered within start its processes by the launcher, where that can be."""
    if not _is_possible(spark):
        yield
        return
    context = spark.sparkContext
    before = context.pythonExec
    context.pythonExec = launcher(before)
    try:
        yield
    finally:
        context.pythonExec = before


def _is_possible(spark: SparkSession) -> bool:
    """Whether workers run on this machine, by this interpreter and with its path."""
    import pyspark

    if os.name != "posix" or type(spark).__module__.startswith("pyspark.sql.connect"):
        return False
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit: workers have another path
        return False
    context = spark.sparkContext
    home = str(Path(pyspark.__file__).parents[1])
    return (
        str(context.master).startswith("local")
        and home in sys.path
        and shutil.which(context.pythonExec) == shutil.which(sys.executable)
    )


@cache
def launcher(python: str) -> str:
    """The path of a launcher of an interpreter, which is there until this process ends."""
    import atexit

    folder = tempfile.mkdtemp(prefix="milepost-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "python")
    path.write_text(_SCRIPT.format(python=shlex.quote(python)), encoding="utf-8")
    path.chmod(0o755)
    return str(path)
