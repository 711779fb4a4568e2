"""Fenced blocks of the pages: which test runs each, or why none does. A block that is in neither table fails.

A block is known by its page and how it begins. `RUN` names the test file that takes the block from the page
itself and runs it; `SHOWN` has a reason for every block that nothing can run.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final, NamedTuple

FENCE: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)

RUN: Final = {
    "README.md": {
        "import pulsar": "tests/e2e/test_readme.py",
        "import milepost": "tests/e2e/test_readme.py",
        "milepost topics create-partitioned-topic": "tests/e2e/test_readme.py",
    },
    "docs/admin.md": {
        "from milepost.admin import Admin, Missing": "tests/e2e/test_pages.py",
        "from milepost.admin import AsyncAdmin": "tests/e2e/test_pages.py",
        "from milepost.admin import Admin, Credentials": "tests/e2e/test_pages.py",
        "outcome = admin.reset_subscription": "tests/e2e/test_pages.py",
    },
    "docs/client.md": {
        "import milepost as pulsar": "tests/client/test_client_page.py",
        "import asyncio": "tests/client/test_client_page.py",
        "import re": "tests/client/test_client_page.py",
    },
    "docs/format.md": {
        "0000  4d 50 53 54 4a": "tests/crash/test_format_reader.py",
        "0000  4d 50 53 54 4c": "tests/crash/test_format_reader.py",
        "0000  4d 50 53 54 4d": "tests/crash/test_format_reader.py",
    },
    "docs/operating.md": {
        "milepost brokers healthcheck": "tests/e2e/test_operating_page.py",
        "milepost progress": "tests/e2e/test_operating_page.py",
        "systemctl stop milepost": "tests/e2e/test_operating_page.py",
        "rsync -a --delete": "tests/e2e/test_operating_page.py",
    },
    "docs/pipelines/archive.md": {"milepost pipeline archive": "tests/spark/test_page.py"},
    "docs/pipelines/progress.md": {"milepost pipeline progress": "tests/spark/test_page.py"},
    "docs/pipelines/replay.md": {"milepost pipeline replay": "tests/spark/test_page.py"},
    "docs/pipelines/verify.md": {"milepost pipeline verify": "tests/spark/test_page.py"},
    "docs/progress.md": {
        "milepost progress": "tests/e2e/test_pages.py",
        "consumer = client.subscribe(": "tests/e2e/test_pages.py",
    },
    "docs/reliability.md": {'{"history": 1}': "tests/unit/testing/checker/test_checker.py"},
    "docs/rocketmq.md": {"from rocketmq import": "tests/rocketmq/test_page.py"},
    "docs/schemas.md": {"from milepost.schemas import": "tests/e2e/test_pages.py"},
    "docs/security.md": {"$ milepost tokens create-secret-key": "tests/e2e/test_pages.py"},
    "docs/spark.md": {
        "import milepost.spark": "tests/spark/test_page.py",
        "spark.sparkContext.addPyFile": "tests/spark/test_cluster.py",
        "orders = (": "tests/spark/test_page.py",
        "stream = spark.readStream": "tests/spark/test_page.py",
        "from pyspark.sql.functions import window": "tests/spark/test_page.py",
        "routed = stream.selectExpr": "tests/spark/test_page.py",
        "orders = spark.createDataFrame": "tests/spark/test_page.py",
        "milepost pipeline archive": "tests/spark/test_page.py",
    },
    "docs/testing.md": {
        "import pulsar": "tests/client/test_testing_page.py",
        "import milepost": "tests/client/test_testing_page.py",
        "import asyncio": "tests/client/test_testing_page.py",
    },
    "docs/transactions.md": {
        "import milepost as pulsar": "tests/client/test_transactions_page.py",
        "milepost transactions": "tests/client/test_transactions_page.py",
    },
}

SHOWN: Final = {
    "README.md": {
        "make demo": "targets that test_docs compares with the Makefile; tests/e2e/test_demo.py runs it",
        "milepost serve --data data": "it never ends and takes the usual ports; tests/e2e starts a broker so",
    },
    "docs/cli.md": {
        "milepost ": "the words of a command, made from it and compared with it by test_docs",
        'eval "$(milepost completion': "changes a person's shell; tests/unit/cli/test_completion.py has it",
    },
    "docs/clients.md": {
        "$ git clone": "needs two repositories of others",
        "$ export MILEPOST_PULSAR_URL": "needs an Apache Pulsar beside it, Go, Java and Maven",
    },
    "docs/format.md": {"lock  ": "a picture of a directory"},
    "docs/workers.md": {
        "milepost serve --workers auto": "it would not end; tests/e2e/test_workers.py starts some",
        "shards.json ": "a picture of a directory",
    },
    "docs/migrating.md": {
        "milepost serve --conf": "needs a conf file of another broker; its words are checked by test_pages",
        "milepost context add old": "needs two brokers with tokens; tests/e2e/test_migrate.py runs the same",
    },
    "docs/cluster.md": {
        "milepost bucket check s3://": "needs an object store; tests/compat/test_bucket.py uses a folder",
        "milepost verify s3://": "needs an object store; tests/unit/cli/server/test_verify_bucket.py has one",
        "milepost serve --bucket s3://acme-events/milepost --shards": "needs an object store; "
        "tests/compat/test_cluster.py has one",
        "manifest ": "a drawing",
        "cluster ": "a drawing",
    },
    "docs/operating.md": {"2026-11-15T": "lines of a log"},
    "docs/pipelines/verify.md": {"persistent://public/default/events in": "lines of an answer"},
    "docs/progress.md": {
        "GET /milepost/v1/progress": "routes, of which docs/rest.md is made",
        "POST /milepost/v1/topics": "routes, of which docs/rest.md is made",
        "billing  Shared": "lines of an answer; tests/unit/cli/golden has more",
    },
    "docs/schemas.md": {"GET    /admin/v2/schemas": "routes, of which docs/rest.md is made"},
    "docs/spark.md": {"pip install": "needs a package index"},
    "docs/transactions.md": {
        "PulsarClient client": "needs Java and Maven; tests/compat/java_client has such programs",
        "client, _ := pulsar.NewClient": "needs Go; tests/compat/go_client has such programs",
        "CAUGHT_UP: ": "a line of an answer",
    },
}


class Block(NamedTuple):
    page: str
    kind: str
    text: str

    @property
    def test(self) -> str | None:
        """The file of the test that runs it; None if none does."""
        return _named(RUN, self)

    @property
    def reason(self) -> str | None:
        """Why nothing runs it."""
        return _named(SHOWN, self)


def blocks(page: str, text: str) -> list[Block]:
    return [Block(page, kind, textwrap.dedent(body).strip()) for kind, body in FENCE.findall(text)]


def _named(tables: dict[str, dict[str, str]], block: Block) -> str | None:
    for start, said in tables.get(block.page, {}).items():
        if block.text.startswith(start):
            return said
    return None
