"""`produce`, `consume`, `peek`, `seek`, `explain`, `perf` against a broker: a message's way in and out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from e2e.conftest import MILEPOST, Serving
from e2e.test_cli_failures import TIMEOUT_S, environment
from milepost.cli.exits import Exit


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    made = Serving(tmp_path_factory.mktemp("broker") / "data")
    yield made
    made.stop()


class Shell:
    def __init__(self, broker: Serving) -> None:
        self._environment = environment(broker.ready["http_url"])

    def __call__(self, *args: str, given: bytes | None = None) -> str:
        """Run it; what it printed. It must succeed."""
        done = subprocess.run(
            [*MILEPOST, *args],
            input=given if given is not None else b"",
            capture_output=True,
            env=self._environment,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode("utf-8", "backslashreplace")


@pytest.fixture
def sh(broker: Serving) -> Shell:
    return Shell(broker)


def test_arguments_with_keys_properties_and_ids(sh: Shell) -> None:
    ids = sh("produce", "args", "-m", "one", "-m", "two,three", "-k", "k", "-p", "a=b", "-I")
    assert len(ids.split()) == 2
    shown = sh("consume", "args", "-e", "-f", "%i|%I|%k|%v|%h\\n").splitlines()
    assert shown == [
        f'{index}|{one}|k|{data}|{{"a": "b"}}'
        for index, (one, data) in enumerate(zip(ids.split(), ["one", "two,three"], strict=True))
    ]


def test_lines_of_standard_input(sh: Shell) -> None:
    sh("produce", "lines", "-K", ":", given=b"k1:one\nk2:two\nthree")
    assert sh("consume", "lines", "-e", "-f", "%k=%v;") == "k1=one;k2=two;=three;"
    sh("produce", "records", "-D", "\\0", given=b"a\nb\0c")
    assert sh("consume", "records", "-e", "-f", "[%v]") == "[a\nb][c]"
    sh("produce", "whole", "-f", "-", given=b"a\nb\n")
    assert sh("consume", "whole", "-e", "-f", "[%v]") == "[a\nb\n]"


def test_a_topic_is_copied_by_a_pipe(sh: Shell) -> None:
    sh("produce", "source", "-k", "k", "-p", "a=b", given=b"\xff\xfe\nplain\n")
    copied = sh("consume", "source", "-e", "--json")
    sh("produce", "copy", "--json", given=copied.encode())
    again = [json.loads(line) for line in sh("consume", "copy", "-e", "--json").splitlines()]
    before = [json.loads(line) for line in copied.splitlines()]
    same = ("key", "properties", "data", "data_base64", "index")
    assert [[one.get(name) for name in same] for one in again] == [
        [one.get(name) for name in same] for one in before
    ]
    assert before[0]["data_base64"] == "//4="


def test_ranges(sh: Shell) -> None:
    sh("produce", "ranges", given=b"".join(b"m%d\n" % number for number in range(50)))
    for flags, shown in {
        ("--from", "idx:10", "--to", "idx:13"): ["m10", "m11", "m12"],
        ("--from", "-2", "-e"): ["m48", "m49"],
        ("--from", "idx:47", "-e"): ["m47", "m48", "m49"],
        ("--from", "earliest", "-n", "2"): ["m0", "m1"],
        ("--from", "-1h", "-n", "1"): ["m0"],
        ("--from", "idx:50", "-e"): [],
        ("-e", "--to", "2020-01-01T00:00:00Z"): [],
    }.items():
        assert sh("consume", "ranges", *flags).split() == shown, flags
    by_index = sh("topics", "get-message-id-by-index", "-i", "20", "--precise", "ranges").strip()
    assert sh("consume", "ranges", "--from", by_index, "-n", "1") == "m20\n"
    assert sh("topics", "get-index-by-message-id", "-m", by_index, "ranges") == "20\n"
    assert sh("consume", "ranges", "-e", "--to", by_index).split()[-1] == "m19"


def test_a_subscription_goes_on_where_it_stood(sh: Shell) -> None:
    sh("topics", "create", "stood")
    sh("topics", "create-subscription", "stood", "-s", "billing", "-m", "earliest")
    sh("produce", "stood", given=b"a\nb\nc\nd\n")
    assert sh("consume", "stood", "-s", "billing", "-n", "2").split() == ["a", "b"]
    assert sh("peek", "stood", "-s", "billing", "-o", "csv").splitlines()[1].endswith(",c")
    (row,) = json.loads(sh("subscriptions", "list", "stood", "-o", "json"))
    assert (row["backlog"], row["ready"], row["inflight"]) == (2, 2, 0)
    assert sh("consume", "stood", "-s", "billing", "-e").split() == ["c", "d"]
    assert sh("consume", "stood", "-s", "billing", "-e") == ""


def test_a_dry_run_says_what_the_seek_does(sh: Shell) -> None:
    topic = "persistent://public/default/sought"
    sh("topics", "create", topic)
    sh("topics", "create-subscription", topic, "-s", "billing", "-m", "earliest")
    sh("produce", topic, given=b"a\nb\nc\nd\n")
    sh("consume", topic, "-s", "billing", "-n", "3")
    said = f"{topic} billing: from index 3 to 1 of [0, 4): 2 indexes delivered again, 0 skipped\n"
    dry = "nothing was changed: this was a dry run\n"
    assert sh("seek", topic, "billing", "--to", "1", "--dry-run") == said + dry
    assert (
        sh("topics", "reset-cursor", topic, "-s", "billing", "-m", "idx:1", "--dry-run")
        == said + dry
    )
    assert "from index 3 to 3 " in sh("seek", topic, "billing", "--by", "0", "--dry-run")
    assert sh("seek", topic, "billing", "--to", "1", "--expected", "3") == said
    assert sh("consume", topic, "-s", "billing", "-n", "1") == "b\n"
    assert ": 0 indexes delivered again, 2 skipped" in sh(
        "topics", "clear-backlog", topic, "-s", "billing", "--dry-run"
    )
    assert ": 0 indexes delivered again, 2 skipped" in sh(
        "topics", "skip", topic, "-s", "billing", "-n", "9", "--dry-run"
    )
    assert "index 1" in sh("subscriptions", "resets", topic, "billing")
    found = sh("explain", "idx:1", topic)
    assert "subscription billing" in found
    assert "acked: the first not acked is 2" in found


def test_partitions(sh: Shell) -> None:
    sh("topics", "create-partitioned-topic", "parts", "-p", "3")
    sh("produce", "parts", given=b"".join(b"%d\n" % number for number in range(9)))
    shown = [
        line.split() for line in sh("consume", "parts", "-e", "-f", "%p %i %v\\n").splitlines()
    ]
    assert sorted(int(value) for _, _, value in shown) == list(range(9))
    for partition in "012":
        of_it = [(int(index), int(value)) for number, index, value in shown if number == partition]
        assert of_it == sorted(of_it)
        assert [index for index, _ in of_it] == list(range(len(of_it)))
    assert len(sh("consume", "parts", "-e", "-n", "4").split()) == 4
    sh("produce", "parts", "-k", "one", given=b"x\ny\nz\n")
    keyed = sh("consume", "parts", "-e", "-f", "%k%p\\n").split()
    assert len({one for one in keyed if one.startswith("one")}) == 1


def test_a_chunked_message_is_one(sh: Shell) -> None:
    large = b"x" * 6_000_000
    sh("produce", "large", "--chunking", "-D", "\\0", given=large)
    shown = sh("consume", "large", "-e", "-f", "%s %I\\n")
    size, name = shown.split()
    assert size == str(len(large))
    for part in (name, *name.split(";"), "index:0", "index:1"):
        assert sh("consume", "large", "-e", "-f", "%s %I\\n", "--from", part) == shown, part
    (row,) = sh("peek", "large").splitlines()[1:]
    assert row.endswith(f"x… ({len(large)} bytes)")


def test_compression(sh: Shell) -> None:
    for name in ("lz4", "zlib", "zstd", "snappy"):
        sh("produce", "packed", "--compression", name, "-m", f"packed by {name}")
    assert sh("consume", "packed", "-e").count("packed by") == 4


def test_measuring(sh: Shell) -> None:
    (row,) = json.loads(sh("perf", "produce", "measured", "-n", "500", "-s", "100", "-o", "json"))
    assert (row["messages"], row["msg/s"] > 0, row["p99 ms"] > 0) == (500, True, True)
    (row,) = json.loads(sh("perf", "consume", "measured", "-n", "500", "-o", "json"))
    assert row["messages"] == 500


def test_consume_ends_where_a_terminated_topic_ends(sh: Shell) -> None:
    """Without -e too, as a reader and as a subscription: nothing more can come."""
    sh("produce", "ended", "-m", "one", "-m", "two")
    sh("topics", "terminate", "ended")
    assert sh("consume", "ended", "--from", "earliest") == "one\ntwo\n"
    assert sh("consume", "ended", "-s", "s", "-p", "Earliest") == "one\ntwo\n"
    assert sh("consume", "ended") == ""
    sh("topics", "create-partitioned-topic", "ended-parts", "-p", "2")
    sh("produce", "ended-parts", "-m", "three")
    for number in range(2):
        sh("topics", "terminate", f"ended-parts-partition-{number}")
    assert sh("consume", "ended-parts", "--from", "earliest") == "three\n"


@pytest.mark.parametrize(
    ("topic", "options", "line"),
    [("unmade-json", ("-J",), b"{nonsense\n"), ("unmade-key", ("-K", ":"), b"\xff:x\n")],
)
def test_a_first_line_that_is_refused_makes_no_topic(
    sh: Shell, broker: Serving, topic: str, options: tuple[str, ...], line: bytes
) -> None:
    done = subprocess.run(
        [*MILEPOST, "produce", topic, *options],
        input=line,
        capture_output=True,
        env=environment(broker.ready["http_url"]),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == Exit.USAGE, done.stderr
    assert topic not in sh("topics", "list", "public/default")
    sh("produce", topic, "-J", given=b'{"data": "x"}\n')
    assert sh("consume", topic, "-e") == "x\n"


def test_explain_says_which_chunk_of_which_message_an_index_is(sh: Shell) -> None:
    sh("produce", "pieces", "-m", "before")
    sh("produce", "pieces", "-c", "-f", "-", given=bytes(6 << 20))
    for index in (1, 2):
        rows = json.loads(sh("explain", str(index), "pieces", "-o", "json"))
        facts = {row["what"]: row["value"] for row in rows}
        assert facts["chunk"] == f"{index} of 2"
        assert facts["its message"].startswith(
            "has the index 2, that of its last chunk; its chunks"
        )
    rows = json.loads(sh("explain", "0", "pieces", "-o", "json"))
    assert not {"chunk", "its message"} & {row["what"] for row in rows}


def test_peek_shows_the_partition_that_an_index_is_of(sh: Shell) -> None:
    sh("topics", "create-partitioned-topic", "peeked", "-p", "2")
    for number in range(2):
        sh("produce", f"peeked-partition-{number}", "-m", f"of {number}")
    header, *rows = sh("peek", "peeked").splitlines()
    assert header.split() == ["PARTITION", "INDEX", "ID", "KEY", "DATA"]
    assert [(row.split()[0], row.split()[1], row[-4:]) for row in rows] == [
        ("0", "0", "of 0"),
        ("1", "0", "of 1"),
    ]
    assert sh("peek", "peeked-partition-1").split()[0] == "INDEX"


def test_the_end_of_a_topic_is_where_it_was_when_all_of_it_has_expired(sh: Shell) -> None:
    sh("produce", "expired", "-m", "one", "-m", "two")
    sh("topics", "truncate", "expired")
    rows = json.loads(sh("explain", "0", "expired", "-o", "json"))
    facts = {row["what"]: row["value"] for row in rows}
    assert facts["end of the topic"] == 2
    assert facts["lies"] == "before the first message that is kept: it has expired"
    rows = json.loads(sh("explain", "latest", "expired", "-o", "json"))
    assert {"what": "index", "value": 2} in rows
    for place in ("0", "earliest", "-1", "latest"):
        assert sh("peek", "expired", "--from", place).splitlines()[1:] == []
        assert sh("consume", "expired", "--from", place, "-e") == ""
    sh("produce", "expired", "-m", "three")
    assert sh("consume", "expired", "--from", "0", "-e", "-f", "%i %v") == "2 three"
