"""`milepost verify` of a bucket: intact, served meanwhile, and with every kind of damage planted in it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from stage.s3 import S3Server
from unit.cli.conftest import Line
from unit.storage.bucket.test_engine import Broker

from milepost.cli.server import verify_bucket
from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.errors import BucketUnusable
from milepost.positions import IndexRanges
from milepost.storage.bucket.chain import GROUP, encode_seal, group_key
from milepost.storage.bucket.image import Image
from milepost.storage.bucket.manifest import Manifest, Place, first_manifest
from milepost.storage.bucket.objects import Failed, Listed, Objects, Reply, Request, Scan
from milepost.storage.bucket.start import open_bucket
from milepost.storage.cluster.document import ClusterDocument, shard_prefix
from milepost.storage.cluster.part import PartObjects
from milepost.storage.cluster.registry import Content
from milepost.storage.ledgers.log import RollPolicy
from milepost.testing import ManualClock
from milepost.testing.bucket import MemoryBucket

TOPIC = "persistent://public/default/orders"


async def opened(objects: Objects, folder: Path, name: str) -> Broker:
    engine = await open_bucket(
        objects,
        "memory://",
        folder / name,
        ManualClock(),
        cluster="test",
        owner=name,
        linger_s=0.0,
        grace_s=0.0,
        roll_policy=RollPolicy(entries_max=4),
        tail_size_max=0,
    )
    return Broker(engine)


async def subscribe(broker: Broker, topic_id: int) -> None:
    """A subscription that has acked the first message."""
    row = await broker.engine.catalog(
        lambda catalog: catalog.create_state(topic_id, "cursor", "billing", {})
    )
    cursor = Cursor(0, 1)
    broker.engine.store.open_state(row.state_id, lambda: snapshot.encode(cursor))
    fact = facts.encode(facts.AckFact(0, IndexRanges([(0, 1)])))
    broker.engine.store.fact(row.state_id, fact, lambda error: None)


async def fill(objects: Objects, folder: Path) -> None:
    """Three owners: the first two are killed, the last one leaves groups behind its checkpoint."""
    for life in range(3):
        broker = await opened(objects, folder, f"broker{life}")
        log = await (broker.found(TOPIC) if life else broker.topic(TOPIC))
        if not life:
            await broker.publish(log, b"0")
            await subscribe(broker, log.topic_id)
        await broker.publish(log, *(b"a %d" % n + bytes(100) for n in range(5)))
        await broker.engine.checkpoint()
        for n in range(3):
            await broker.publish(log, b"b %d" % n)
        await broker.kill()


@cache
def made() -> dict[str, bytes]:
    """The objects of such a bucket, made once."""
    import tempfile

    bucket = MemoryBucket()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(bucket, Path(folder)))
    return dict(bucket.objects)


class Folder:
    """A bucket in a folder that tests may spoil."""

    def __init__(self, root: Path, objects: dict[str, bytes]) -> None:
        self.root = root
        for key, data in objects.items():
            self.write(key, data)

    def write(self, key: str, data: bytes) -> None:
        (self.root / key).parent.mkdir(parents=True, exist_ok=True)
        (self.root / key).write_bytes(data)

    def flip(self, key: str, place: int) -> None:
        content = bytearray((self.root / key).read_bytes())
        content[place] ^= 0x10
        self.write(key, bytes(content))

    def delete(self, key: str) -> None:
        (self.root / key).unlink()

    def keys(self, prefix: str = "") -> list[str]:
        found = (
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if path.is_file()
        )
        return sorted(key for key in found if key.startswith(prefix))

    @property
    def objects(self) -> dict[str, bytes]:
        return {key: (self.root / key).read_bytes() for key in self.keys()}

    @property
    def manifest(self) -> Manifest:
        return Manifest.decode((self.root / "manifest").read_bytes())

    @property
    def image(self) -> Image:
        return Image.decode((self.root / self.manifest.image).read_bytes(), "image")

    @property
    def groups(self) -> list[str]:
        return [
            key for key in self.keys("journal/") if (self.root / key).read_bytes()[4:8] == GROUP
        ]


@pytest.fixture
def bucket(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "bucket", made())


def damages(line: Line) -> list[str]:
    return [
        one.removeprefix("damaged: ")
        for one in line.err.splitlines()
        if one.startswith("damaged: ")
    ]


def test_an_intact_bucket_is_left_as_it_is(bucket: Folder, line: Line) -> None:
    before, url = bucket.objects, bucket.root.as_uri()
    shown = line("verify", url)
    assert (line.code, line.err) == (0, "")
    assert shown.splitlines()[-1] == f"{url}: 1 topics, 25 entries, 25 messages: all intact"
    assert bucket.objects == before, "something was changed"
    assert not (bucket.root / ".drafts").exists()
    shown = line("verify", url, "-o", "csv").splitlines()
    assert shown[1].startswith(f"{TOPIC},")
    assert shown[1].endswith(",1,0"), "one subscription, no problem"


def lose(kind: str) -> Callable[[Folder], str]:
    """Delete an object; returns its key."""

    def spoil(bucket: Folder) -> str:
        if kind == "image":
            key = bucket.manifest.image
        elif kind == "pack":
            key = bucket.image.extents["ledgers/0000000000000001.ledger"][0].pack
        elif kind == "seal of an old epoch":
            key = group_key(Place(1, 4)).rpartition("/")[0] + "/"
            for one in bucket.keys(key):
                bucket.delete(one)
            return key
        else:
            # Of the manifest's own epoch only what lies before others is missed; so of an earlier one.
            place = bucket.manifest.floor
            earlier = bucket.manifest._replace(epoch=place.epoch + 1)
            bucket.write("manifest", earlier.encode())
            seal = place._replace(number=place.number + 3)
            bucket.write(group_key(seal), encode_seal(bytes(16), seal))
            bucket.write(group_key(Place(seal.epoch + 1, 0)), b"x" * 100)
            key = group_key(place._replace(number=place.number + 1))
        bucket.delete(key)
        return key

    return spoil


@pytest.mark.parametrize("kind", ["image", "pack", "seal of an old epoch", "group"])
def test_what_is_missing_is_named(kind: str, bucket: Folder, line: Line) -> None:
    key = lose(kind)(bucket)
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert damages(line)[0].startswith(f"{key}: "), line.err
    assert "missing" in damages(line)[0]


def test_a_gap_that_more_groups_lie_behind_than_can_be_on_their_way(
    bucket: Folder, line: Line
) -> None:
    floor = bucket.manifest.floor
    bucket.write(group_key(floor._replace(number=floor.number + 8)), b"x" * 100)
    bucket.delete(group_key(floor))
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert damages(line)[0] == f"{group_key(floor)}: is missing: a group was there"


def test_groups_that_were_never_answered_are_left_over(bucket: Folder, line: Line) -> None:
    floor = bucket.manifest.floor
    key = group_key(floor._replace(number=floor.number + 5))
    bucket.write(key, b"never answered" * 9)
    line("verify", bucket.root.as_uri())
    assert line.code == 0
    assert f"left over: {key}: " in line.err


def test_a_manifest_that_is_missing_or_old(bucket: Folder, line: Line) -> None:
    manifest = bucket.manifest
    before = manifest.epoch - 1
    old = manifest._replace(epoch=before, floor=Place(before, 0))
    bucket.write("manifest", old.encode())
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert "the manifest is an old one" in line.err
    bucket.delete("manifest")
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert damages(line)[0].startswith("manifest: is missing, and ")


def test_a_broken_checksum_is_named_with_object_and_byte(bucket: Folder, line: Line) -> None:
    pack, start, _ = bucket.image.extents["ledgers/0000000000000001.ledger"][0]
    bucket.flip(pack, start + 200)
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    (damage,) = damages(line)
    assert damage.startswith(
        f"{TOPIC}: {pack}: byte {start + 113}: ledgers/0000000000000001.ledger"
    ), damage


def test_parts_of_packs_that_a_broker_can_do_without(bucket: Folder, line: Line) -> None:
    ledger = bucket.image.extents["ledgers/0000000000000001.ledger"][0]
    rows = bucket.image.extents["ledgers/0000000000000001.mileposts"][0]
    bucket.flip(ledger.pack, ledger.start + 20)
    bucket.flip(rows.pack, rows.start + 70)
    line("verify", bucket.root.as_uri())
    assert line.code == 0
    assert line.err.splitlines() == [
        f"{ledger.pack}: byte {ledger.start}: ledgers/0000000000000001.ledger: the header is damaged; "
        "entries are read without it",
        f"{rows.pack}: byte {rows.start}: ledgers/0000000000000001.mileposts: the checksum does not "
        "match; it is made again from the ledger",
    ]


def test_a_record_of_the_journal_that_cannot_be_read(bucket: Folder, line: Line) -> None:
    key = bucket.groups[1]
    bucket.flip(key, 64 + 50)
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert damages(line)[0].startswith(f"{key}: byte 64: journal/"), line.err


@pytest.mark.parametrize("place", [0, 20, 70])
def test_a_group_that_is_none(place: int, bucket: Folder, line: Line) -> None:
    key = bucket.groups[0]
    bucket.flip(key, place)
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert damages(line)[0].startswith(f"{key}: "), line.err


def test_an_image_and_packs_that_are_cut_off(bucket: Folder, line: Line) -> None:
    pack, start, size = bucket.image.extents["ledgers/0000000000000001.ledger"][-1]
    data = bucket.objects[pack]
    bucket.write(pack, data[: start + size - 1])
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert damages(line)[0].startswith(f"{pack}: has {start + size - 1} bytes, and the image names")
    bucket.write(pack, data)
    image = bucket.manifest.image
    bucket.flip(image, 40)
    line("verify", bucket.root.as_uri())
    assert line.code == 7
    assert damages(line)[0].startswith(f"{image}: ")


def test_what_nothing_names_is_told_and_is_no_damage(bucket: Folder, line: Line) -> None:
    left = [f"pack/{7:032x}", f"image/{7:032x}", "check/1/2", group_key(Place(1, 0))]
    for key in left:
        bucket.write(key, b"x" * 100)
    foreign = ["readme.txt", "pack/notes", "journal/1", "shards/0/manifest"]
    for key in foreign:
        bucket.write(key, b"x" * 100)
    line("verify", bucket.root.as_uri())
    told = line.err.splitlines()
    for key in left:
        assert any(one.startswith(f"left over: {key}: ") for one in told), (key, told)
    for key in foreign:
        assert any(one.startswith(f"foreign: {key}: ") for one in told), (key, told)
    assert [one for one in damages(line) if "is missing, and there are shards" not in one] == []


def cluster_of(shards: dict[int, dict[str, bytes]], root: Path) -> Folder:
    folder = Folder(root, {"cluster": ClusterDocument("test", 3, "00" * 32).encode()})
    folder.write("registry", Content({}, []).encode())
    for number, objects in shards.items():
        for key, data in objects.items():
            folder.write(shard_prefix(number) + key, data)
    return folder


def test_a_cluster_is_looked_at_shard_by_shard(tmp_path: Path, line: Line) -> None:
    folder = cluster_of({0: made(), 2: made()}, tmp_path / "bucket")
    shutil.rmtree(folder.root / "shards/2/board", ignore_errors=True)
    shown = line("verify", folder.root.as_uri())
    assert line.code == 0, line.err
    assert shown.splitlines()[-1].endswith(": 2 topics, 50 entries, 50 messages: all intact")
    lost = next(key for key in folder.keys("shards/2/pack/"))
    folder.delete(lost)
    folder.write("shards/9/manifest", b"{}")
    line("verify", folder.root.as_uri())
    assert line.code == 7
    assert damages(line)[0].startswith(f"{lost}: is missing, and the image names it")
    assert "foreign: shards/9/manifest: " in line.err
    folder.delete("registry")
    folder.delete("cluster")
    line("verify", folder.root.as_uri())
    assert line.code == 7
    assert damages(line) == ["cluster: is missing, and there are shards"]


# -- what cannot be looked at ------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["cluster", "registry", "shards/0/manifest"])
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": 1, "shards": "x"}'])
def test_a_document_that_cannot_be_read_is_damage_and_the_rest_is_looked_at(
    key: str, data: bytes, tmp_path: Path, line: Line
) -> None:
    folder = cluster_of({0: made(), 2: made()}, tmp_path / "bucket")
    folder.write(key, data)
    folder.delete("shards/2/" + Manifest.decode(made()["manifest"]).image)
    before = folder.objects
    line("verify", folder.root.as_uri())
    assert line.code == 7
    found = damages(line)
    assert len(found) == 2, found
    assert any(one.startswith(f"{key}: {len(data)} bytes that cannot be read: ") for one in found)
    assert any(one.startswith("shards/2/image/") for one in found)
    assert folder.objects == before


def test_a_bucket_that_is_not_there_is_told_in_one_line(line: Line, tmp_path: Path) -> None:
    url = (tmp_path / "none").as_uri()
    line("verify", url)
    assert (line.code, line.err.count("\n")) == (5, 1)
    assert "there is no such folder" in line.err
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    line("verify", (tmp_path / "empty").as_uri())
    assert line.code == 5
    assert "no data of Milepost" in line.err
    line("verify", "ftp://x")
    assert line.code == 2
    line("verify", str(tmp_path), "--endpoint", "http://127.0.0.1:1")
    assert line.code == 2
    line("verify", "s3://name/prefix", "--endpoint", "http://127.0.0.1:1", "--region", "r")
    assert (line.code, line.err.count("\n")) == (8, 1)
    assert "cannot be reached" in line.err


def test_a_bucket_of_another_format_is_told_in_one_line(bucket: Folder, line: Line) -> None:
    doc = json.loads((bucket.root / "manifest").read_bytes())
    bucket.write("manifest", json.dumps({**doc, "format": 2}).encode())
    line("verify", bucket.root.as_uri())
    assert (line.code, line.err.count("\n")) == (7, 1)
    assert "format 2; this release reads 1" in line.err
    for folder in ("journal", "image", "pack"):
        shutil.rmtree(bucket.root / folder)
    bucket.write("manifest", b"a list of goods")
    line("verify", bucket.root.as_uri())
    assert (line.code, line.err.count("\n")) == (8, 1)
    assert "is not a manifest of Milepost" in line.err


def test_a_store_that_does_not_permit_it() -> None:
    bucket = MemoryBucket()
    bucket.fault = lambda request: Failed("403", is_denied=True)
    with pytest.raises(BucketUnusable, match="memory://: not permitted: 403; "):
        asyncio.run(verify_bucket.checked(bucket, "memory://"))


def test_a_bucket_that_speaks_s3(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s")):
        monkeypatch.setenv(f"AWS_{name}", value)
    with S3Server() as store:
        for key, data in made().items():
            store.objects[f"name/prefix/{key}"] = data
        line("verify", "s3://name/prefix", "--endpoint", store.url, "--region", "r")
    assert line.code == 0, line.err


def test_a_bucket_that_a_broker_writes_to_meanwhile(tmp_path: Path) -> None:
    """Whatever the owner's checkpoints delete under the check, it finds no damage."""

    async def run() -> None:
        bucket = MemoryBucket()
        bucket.turns = lambda: 3
        part = PartObjects(bucket, shard_prefix(0))
        broker = await opened(part, tmp_path, "broker")
        log = await broker.topic(TOPIC)
        bucket.objects["cluster"] = ClusterDocument("test", 1, "00" * 32).encode()
        bucket.objects["registry"] = Content({}, []).encode()
        over = asyncio.Event()

        async def work() -> None:
            while not over.is_set():
                await broker.publish(log, b"more")
                await broker.engine.checkpoint()

        working = asyncio.ensure_future(work())
        for _ in range(5):
            report = await verify_bucket.checked(bucket, "memory://")
            assert report.all_problems == []
        over.set()
        await working
        await broker.kill()

    asyncio.run(run())


def test_a_document_that_a_list_shows_and_that_is_gone_is_damage() -> None:
    class Lagging(MemoryBucket):
        def apply(self, request: Request) -> Reply:
            reply = super().apply(request)
            if isinstance(reply, Listed) and isinstance(request, Scan) and not request.prefix:
                return Listed([*reply.objects, ("cluster", 90)])
            return reply

    bucket = Lagging()
    bucket.objects["registry"] = Content({}, []).encode()
    bucket.objects["shards/0/manifest"] = first_manifest("c", "b", "00").encode()
    report = asyncio.run(verify_bucket.checked(bucket, "memory://"))
    assert len(report.all_problems) == 1
    assert report.all_problems[0].startswith("cluster: 0 bytes that cannot be read: ")
