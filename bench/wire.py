"""What a frame costs in CPU: the broker's share of every message before anything is decided.

    python -m bench.wire            in the interpreter
    python -m bench.wire --mypyc    and compiled from the same source, where there is a C compiler

Frames are what official clients write: 100-byte payloads, checksums verified, sequence ids and entries
of three bytes. A run is a buffer of 1,000 frames through `ServerProtocol.receive`, as one read of a
socket brings them; the best of many runs counts, since a shared machine only ever adds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import milepost
from bench.cursor import Figure, at_most
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.metadata import encode_broker_entry
from milepost.wire.murmur import key_slot
from milepost.wire.protocol import ClientProtocol, ServerProtocol
from milepost.wire.scanners import send_scan
from milepost.wire.scanners.encode import MessageEncoder, ack_response, send_frame, send_receipts

COUNT = 1_000
RUNS = 40
FIRST = 100_000  # of sequence ids and entries
NOW = 1_794_741_333_444
PAYLOAD = bytes(100)

# What mypyc compiles: plain functions over bytes. The rest waits for the library or for no one.
COMPILED = ("varint", "shape", "send_scan", "ack_scan", "message_scan", "encode")


def best(step: Callable[[], object], count: int = COUNT) -> float:
    """Microseconds for one of the `count` things that a step does."""
    taken = []
    for _ in range(RUNS):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    return min(taken) / count * 1e6


def server() -> ServerProtocol:
    protocol = ServerProtocol(server_version="bench")
    protocol.receive(replies.reply(pb.CommandConnect(client_version="b", protocol_version=21)))
    protocol.accept()
    protocol.data_to_send()
    return protocol


def client() -> ClientProtocol:
    protocol = ClientProtocol()
    protocol.connect(pb.CommandConnect(client_version="b"))
    protocol.receive(replies.reply(pb.CommandConnected(server_version="b", protocol_version=21)))
    protocol.data_to_send()
    return protocol


def sends(
    payload: bytes = PAYLOAD,
    per_millisecond: int = 50,
    command: dict[str, Any] | None = None,
    **metadata: Any,
) -> bytes:
    """A buffer of SENDs; a metadata value that is called is given the message's number."""
    frames = []
    for number in range(COUNT):
        fields = {k: v(number) if callable(v) else v for k, v in metadata.items()}
        encoded = pb.MessageMetadata(
            producer_name="standalone-0-0",
            sequence_id=FIRST + number,
            publish_time=NOW + number // per_millisecond,
            **fields,
        ).SerializeToString()
        frames += send_frame(3, FIRST + number, encoded, payload, **(command or {}))
    return b"".join(frames)


def received(data: bytes, protocol: ServerProtocol | ClientProtocol) -> float:
    def step() -> None:
        assert protocol.receive(data)

    step()
    cost = best(step)
    assert protocol.error is None
    return cost


def reading() -> list[Figure]:
    """What a broker is sent."""
    buffers = [
        ("SEND, unbatched, 50 a millisecond", sends(), 2.0),
        ("SEND, unbatched, each in its own millisecond", sends(per_millisecond=1), 3.0),
        ("SEND, with a key", sends(partition_key=lambda number: f"key-{number}"), 4.5),
        (
            "SEND, a batch of 10",
            sends(bytes(1060), command={"num_messages": 10}, num_messages_in_batch=10),
            3.0,
        ),
        (
            "SEND, a chunk",
            sends(
                command={"is_chunk": True},
                uuid=lambda number: f"standalone-0-0-{number}",
                num_chunks_from_msg=3,
                total_chunk_msg_size=300,
                chunk_id=1,
            ),
            8.0,
        ),
    ]
    figures = [at_most(name, received(data, server()), "µs", most) for name, data, most in buffers]

    def ack(entries: int, **more: Any) -> bytes:
        ids = [pb.MessageIdData(ledgerId=70, entryId=FIRST + n, **more) for n in range(entries)]
        command = pb.CommandAck(
            consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=ids, request_id=900
        )
        return replies.reply(command)

    figures.append(at_most("ACK of one id", received(ack(1) * COUNT, server()), "µs", 4.0))
    figures.append(at_most("ACK of 1,000 ids, each", received(ack(COUNT), server()), "µs", 1.0))
    sets = received(ack(COUNT, ack_set=[28]), server())
    figures.append(at_most("ACK of 1,000 ids with ack sets, each", sets, "µs", 1.5))
    flow = replies.reply(pb.CommandFlow(consumer_id=1, messagePermits=500))
    figures.append(at_most("FLOW", received(flow * COUNT, server()), "µs", 3.0))
    return figures


def writing() -> list[Figure]:
    """What a broker sends, and what a client reads of it."""
    receipts = [(FIRST + number, 0, 70, FIRST + number) for number in range(COUNT)]
    encoder = MessageEncoder(1)
    block = encode_broker_entry(NOW, FIRST)

    def messages() -> list[bytes]:
        return [
            encoder.head(70, FIRST + number, 140, broker_entry=block) for number in range(COUNT)
        ]

    entry = sends()[16:156]
    data = b"".join(head + entry for head in messages())
    return [
        at_most("SEND_RECEIPT", best(lambda: send_receipts(3, receipts)), "µs", 1.5),
        at_most("MESSAGE, all before the entry", best(messages), "µs", 2.0),
        at_most(
            "ACK_RESPONSE", best(lambda: [ack_response(1, n) for n in range(COUNT)]), "µs", 1.0
        ),
        at_most(
            "broker entry metadata",
            best(lambda: [encode_broker_entry(NOW, n) for n in range(COUNT)]),
            "µs",
            2.5,
        ),
        at_most(
            "slot of a key",
            best(lambda: [key_slot(b"key-123456") for _ in range(COUNT)]),
            "µs",
            6.0,
        ),
        at_most("MESSAGE, read by a client", received(data, client()), "µs", 4.0),
        at_most(
            "SEND_RECEIPT, read by a client",
            received(send_receipts(3, receipts), client()),
            "µs",
            4.0,
        ),
    ]


def run() -> list[Figure]:
    """Measure everything; a second or two."""
    return reading() + writing()


def compiled() -> int:
    """Compile a copy of the package in a folder of its own, and measure that."""
    if shutil.which("cc") is None:
        print("no C compiler: the compiled form is not measured")
        return 0
    package = Path(milepost.__file__).parent
    modules = [f"milepost/wire/{name}.py" for name in COMPILED]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(package, Path(folder) / "milepost")
        (Path(folder) / "setup.py").write_text(
            "from mypyc.build import mypycify\n"
            "from setuptools import setup\n"
            f"options = ['--ignore-missing-imports', *{modules}]\n"
            "setup(name='compiled', ext_modules=mypycify(options, opt_level='3'))\n"
        )
        build = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if build.returncode != 0:
            print(build.stdout[-2000:], build.stderr[-2000:])
            return 1
        code = f"import sys; sys.path[:0] = [{folder!r}]; import bench.wire; bench.wire.main()"
        root = Path(__file__).resolve().parent.parent
        return subprocess.run([sys.executable, "-c", code], cwd=root).returncode


def main() -> list[Figure]:
    """Measure and print."""
    form = "in the interpreter" if send_scan.__file__.endswith(".py") else "compiled"
    print(f"wire, {form}")
    figures = run()
    for name, value, unit, target, ok in figures:
        print(f"{name:<50}{value:>10.2f} {unit:<4} target {target:<8}{'ok' if ok else 'MISSED'}")
    return figures


if __name__ == "__main__":
    main()
    if "--mypyc" in sys.argv[1:]:
        sys.exit(compiled())
