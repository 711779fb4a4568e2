"""Names of readers: no two are the same, also in workers that were forked from one process."""

from __future__ import annotations

import os

from milepost.spark.reading.link import reader_name


def test_forked_workers_never_share_a_name() -> None:
    names = {reader_name(), reader_name()}
    for _ in range(2):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, reader_name().encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            names.add(pipe.read())
        os.waitpid(pid, 0)
    assert len(names) == 4
