"""The enumerator: every point, every outcome, reproducible, and able to find planted bugs."""

from __future__ import annotations

import errno
import zlib
from collections import Counter

import pytest

from milepost.testing.crash import Image, image, images, power_loss
from milepost.testing.files import MemoryFiles
from milepost.testing.trace import Mark


def small_trace() -> MemoryFiles:
    files = MemoryFiles({"log": b"<"})
    file = files.open_append("log", 1)
    file.append([b"x" * 1_500])  # operation 0
    files.trace.mark("catalog", "v1")  # 1
    file.sync()  # 2
    files.create("log.new").close()  # 3
    files.rename("log.new", "other")  # 4
    files.sync_dir("")  # 5
    return files


def by_point(files: MemoryFiles, seed: int = 0) -> dict[int, dict[str, Image]]:
    found: dict[int, dict[str, Image]] = {}
    for made in images(files.trace, seed):
        assert made.outcome not in found.setdefault(made.point, {}), "an image came twice"
        found[made.point][made.outcome] = made
    return found


def test_every_point_is_visited_and_nothing_volatile_means_one_image() -> None:
    found = by_point(small_trace())
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 6]
    assert [sorted(found[point]) for point in (0, 3, 6)] == [["kept"]] * 3


def test_an_append_is_cut_at_every_sector_of_the_file() -> None:
    found = by_point(small_trace())[1]
    cuts = {int(name.split()[1]) for name in found if name.startswith("cut")}
    assert {511, 1_023} <= cuts  # the append starts at byte 1: sectors end at 512 and 1024
    assert len(cuts) == 4  # and two random ones
    for size in cuts:
        assert found[f"cut {size}"].files.contents() == {"log": b"<" + b"x" * size}


def test_later_points_cut_the_same_append_only_at_random_bytes() -> None:
    found = by_point(small_trace())[2]
    assert len([name for name in found if name.startswith("cut")]) == 2


def test_outcomes_of_an_append() -> None:
    found = by_point(small_trace())[1]
    whole = b"<" + b"x" * 1_500
    assert found["dropped"].files.contents() == {"log": b"<"}
    assert found["kept"].files.contents() == {"log": whole}
    garbage = found["garbage 0"].files.contents()["log"]
    assert len(garbage) == len(whole)
    assert garbage[:1] == b"<"
    assert garbage != whole
    (zeros,) = [name for name in found if name.startswith("zeros")]
    size = int(zeros.split()[1])
    assert found[zeros].files.contents()["log"] == b"<" + b"x" * size + bytes(1_500 - size)


def test_sectors_survive_one_by_one() -> None:
    seen = set()
    for seed in range(100):
        content = by_point(small_trace(), seed)[1]["sectors 0"].files.contents()["log"]
        pieces = (content[1:512], content[512:1_024], content[1_024:])
        assert all(set(piece) <= {0, ord("x")} and len(set(piece)) <= 1 for piece in pieces)
        seen.add(tuple(b"x" in piece for piece in pieces))
    assert len(seen) == 8  # every subset of three sectors


def test_outcomes_of_names() -> None:
    found = by_point(small_trace())
    log = b"<" + b"x" * 1_500
    assert found[5]["dropped"].files.contents() == {"log": log}
    assert found[5]["lost 0"].files.contents() == {"log": log}  # never created, never renamed
    assert found[5]["lost 1"].files.contents() == {"log": log, "log.new": b""}
    assert found[5]["kept"].files.contents() == {"log": log, "other": b""}


def test_names_and_data_survive_apart() -> None:
    files = MemoryFiles({"a": b"old"})
    files.create("a.new").append([b"new"])
    files.rename("a.new", "a")
    found = by_point(files)[3]
    assert found["names"].files.contents() == {"a": b""}
    assert found["data"].files.contents() == {"a": b"old"}


def test_a_deletion_can_be_undone() -> None:
    files = MemoryFiles({"a": b"a", "b": b"b"})
    files.delete("a")
    files.delete("b")
    found = by_point(files)[2]
    assert found["lost 0"].files.contents() == {"a": b"a"}
    assert found["lost 1"].files.contents() == {"b": b"b"}


def test_marks_are_visible_after_their_place_and_not_before() -> None:
    found = by_point(small_trace())
    assert {made.marks for made in found[1].values()} == {()}
    assert {made.marks for made in found[2].values()} == {(Mark("catalog", "v1"),)}
    # The transaction in progress is tried both ways over the same disk.
    assert found[1]["kept"].files.contents() == found[2]["kept"].files.contents()
    assert found[2]["kept"].payloads("catalog") == ["v1"]
    assert found[2]["kept"].last("catalog") == "v1"
    assert found[1]["kept"].last("catalog", "v0") == "v0"


def test_the_last_mark_of_a_name_is_its_state() -> None:
    files = MemoryFiles()
    for name, payload in (("catalog", 1), ("receipt", 2), ("catalog", 3), ("receipt", 4)):
        files.trace.mark(name, payload)
    made = image(files.trace, 3, "kept")
    assert (made.last("catalog"), made.last("receipt")) == (3, 2)
    assert made.payloads("catalog") == [1, 3]


def fingerprint(made: Image) -> tuple[object, ...]:
    return made.point, made.outcome, made.description, made.files.contents(), made.marks


def test_the_same_seed_gives_the_same_images() -> None:
    first = [fingerprint(made) for made in images(small_trace().trace, 7)]
    again = [fingerprint(made) for made in images(small_trace().trace, 7)]
    other = [fingerprint(made) for made in images(small_trace().trace, 8)]
    assert first == again
    assert first != other


def test_other_seeds_cut_at_other_bytes() -> None:
    trace = small_trace().trace
    cuts = [{made.outcome for made in images(trace, seed, first=2, end=3)} for seed in (1, 2)]
    assert cuts[0] != cuts[1]


def test_an_image_can_be_built_alone() -> None:
    trace = small_trace().trace
    for made in images(trace, 7):
        alone = image(trace, made.point, made.outcome, seed=7)
        assert fingerprint(alone) == fingerprint(made)


def test_a_description_tells_where_and_how() -> None:
    made = image(small_trace().trace, 2, "cut 511", seed=7)
    assert made.description == (
        "crash after operation 2 of 6 (done: mark catalog 'v1'; next: sync log), "
        "outcome 'cut 511', seed 7"
    )


def test_an_outcome_that_cannot_be_is_refused() -> None:
    trace = small_trace().trace
    with pytest.raises(ValueError, match="no append is volatile"):
        image(trace, 6, "cut 3")
    with pytest.raises(ValueError, match="'burnt'"):
        image(trace, 6, "burnt")


def test_a_count_is_spread_over_the_points() -> None:
    files = MemoryFiles({"a": b""})
    file = files.open_append("a", 0)
    for _ in range(10):
        file.append([b"x" * 10_000])
    everything = [(made.point, made.outcome) for made in images(files.trace)]
    few = [(made.point, made.outcome) for made in images(files.trace, count=33)]
    assert len(few) == 33
    assert set(few) < set(everything)
    assert few == sorted(few, key=lambda pair: everything.index(pair))
    # Point 0 has one image to give, the others share the rest evenly.
    counts = Counter(point for point, _ in few)
    assert counts[0] == 1
    assert {counts[point] for point in range(1, 11)} <= {3, 4}
    assert len(list(images(files.trace, count=10**6))) == len(everything)


def test_points_can_be_limited() -> None:
    trace = small_trace().trace
    assert {made.point for made in images(trace, first=2, end=4)} == {2, 3}


def test_power_loss_at_the_end() -> None:
    files = MemoryFiles({"a": b""})
    files.open_append("a", 0).append([b"x"])
    assert power_loss(files).contents() == {"a": b""}
    assert power_loss(files, "kept").contents() == {"a": b"x"}


def test_recovery_can_be_crashed_again() -> None:
    files = MemoryFiles({"a": b""})
    files.open_append("a", 0).append([b"torn"])
    recovered = power_loss(files, "cut 2")
    file = recovered.open_append("a", 0)
    file.append([b"new"])
    file.sync()
    found = {bytes(made.files.contents()["a"]) for made in images(recovered.trace)}
    assert {b"to", b"", b"new"} <= found
    assert power_loss(recovered).contents() == {"a": b"new"}


# A log of 100 lines that is right, and four ways to get it wrong: the enumerator must tell them
# apart. What it must hold: each line whose receipt was given is there, in order, undamaged.


class Log:
    def __init__(self, files: MemoryFiles, *, checks: bool = True) -> None:
        self.files = files
        self.lines: list[bytes] = []
        if not files.exists("log"):
            return
        content = files.read("log", 0, files.size("log"))
        for line in content.split(b"\n")[:-1]:
            if checks and (len(line) < 8 or line[:8] != b"%08x" % zlib.crc32(line[8:])):
                break
            self.lines.append(line[8:])


def workload(files: MemoryFiles, *, receipt_first: bool = False, sync_dir: bool = True) -> None:
    log = files.create("log")
    if sync_dir:
        files.sync_dir("")
    for number in range(8):
        data = b"%d" % number * 600
        log.append([b"%08x" % zlib.crc32(data), data, b"\n"])
        if receipt_first:
            files.trace.mark("receipt", data)
        log.sync()
        if not receipt_first:
            files.trace.mark("receipt", data)


def broken_promises(files: MemoryFiles, *, checks: bool = True) -> list[str]:
    broken = []
    for made in images(files.trace, seed=1):
        promised = made.payloads("receipt")
        lines = Log(made.files, checks=checks).lines
        ahead = lines[len(promised) :]
        possible = b"%d" % len(promised) * 600
        if lines[: len(promised)] != promised or ahead not in ([], [possible]):
            broken.append(made.description)
    return broken


def test_a_correct_log_passes_every_image() -> None:
    files = MemoryFiles()
    workload(files)
    assert broken_promises(files) == []


@pytest.mark.parametrize("plant", ["sync lies", "sync_dir lies", "receipt first", "no sync_dir"])
def test_a_planted_bug_is_found(plant: str) -> None:
    files = MemoryFiles(sync_lies=plant == "sync lies", sync_dir_lies=plant == "sync_dir lies")
    workload(files, receipt_first=plant == "receipt first", sync_dir=plant != "no sync_dir")
    assert broken_promises(files)


def test_a_reader_that_does_not_check_is_found() -> None:
    files = MemoryFiles()
    workload(files)
    assert broken_promises(files, checks=False)


def test_trusting_the_page_cache_after_a_failed_sync_is_found() -> None:
    files = MemoryFiles()
    log = files.create("log")
    files.sync_dir("")
    files.faults.fail("sync", error=errno.EIO)
    data = b"0" * 600
    log.append([b"%08x" % zlib.crc32(data), data, b"\n"])
    with pytest.raises(OSError):
        log.sync()
    log.close()
    log = files.open_append("log", files.size("log"))  # the reader sees it: all is well?
    log.sync()
    files.trace.mark("receipt", data)
    assert files.violations == []
    assert broken_promises(files)
