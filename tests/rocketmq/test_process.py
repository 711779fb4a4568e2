"""The process with the edge: it starts or says why not, and stops with polls open; off, it loads nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
from compat.administer import until
from compat.broker_process import BrokerProcess
from compat.hostile import peak_size

from milepost.rocketmq import rocketmq_pb2 as pb


def serve(
    tmp_path: Path, port: int, *flags: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A broker that cannot start."""
    command = [sys.executable, "-m", "milepost.cli.main", "serve", "--data", str(tmp_path / "data")]
    command += ["--port", "0", "--http-port", "0", "--rocketmq-port", str(port), *flags]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_a_port_in_use_is_told_with_the_flag_that_changes_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = serve(tmp_path, taken.getsockname()[1])
    assert ended.returncode != 0
    assert "the port is in use" in ended.stderr
    assert "--rocketmq-port" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_taken_port_of_the_name_server_is_told_with_its_flag(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = ("--rocketmq-namesrv-port", str(taken.getsockname()[1]))
        ended = serve(tmp_path, -1, *flags)
    assert ended.returncode != 0
    assert "the port is in use" in ended.stderr
    assert "--rocketmq-namesrv-port" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_name_server_needs_no_packages_of_its_own(tmp_path: Path) -> None:
    program = (
        "import sys, milepost.rocketmq.remoting.server; "
        "print([one for one in sys.modules if one.startswith(('grpc', 'hpack'))])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == "[]"


def test_a_missing_package_is_told_with_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "hpack.py").write_text("raise ImportError('No module named hpack')\n")
    ended = serve(tmp_path, 0, PYTHONPATH=str(tmp_path))
    assert ended.returncode != 0
    assert "milepost[rocketmq]" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_nothing_is_loaded_while_it_is_off() -> None:
    program = (
        "import sys, milepost.cli.server.process, milepost.broker.run, milepost.rest.app; "
        "print([one for one in sys.modules if one.startswith(('hpack', 'milepost.rocketmq'))])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == "[]"


def test_all_ports_answer_when_rest_says_that_the_broker_is_ready(tmp_path: Path) -> None:
    with ExitStack() as taken:
        places = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        rest, *others = [one.getsockname()[1] for one in places]
    command = [sys.executable, "-m", "milepost.cli.main", "serve", "--data", str(tmp_path / "data")]
    command += ["--port", "0", "--http-port", str(rest), "--rocketmq-port", str(others[0])]
    command += ["--rocketmq-namesrv-port", str(others[1])]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:

        def says_ready() -> bool:
            with suppress(OSError):
                url = f"http://127.0.0.1:{rest}/admin/v2/brokers/health"
                return bool(urllib.request.urlopen(url, timeout=10).status == 200)
            return False

        deadline = time.monotonic() + 60  # a busy machine takes its time for a start
        while not says_ready():
            assert time.monotonic() < deadline, "REST does not say that the broker is ready"
            time.sleep(0.02)  # sleep: between two questions
        for port in others:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
    finally:
        process.kill()
        process.wait()


def test_a_stop_ends_polls_and_streams(
    tmp_path: Path, make_raw: Callable[..., Any], make_topic: Callable[..., str]
) -> None:
    with BrokerProcess(tmp_path, rocketmq_port=0) as broker:
        make_topic(broker, "orders")
        raw = make_raw(f"127.0.0.1:{broker.rocketmq_port}")
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name="g"),
            message_queue=pb.MessageQueue(topic=pb.Resource(name="orders")),
            batch_size=1,
            auto_renew=True,
        )
        waiting = raw.stream("ReceiveMessage", request, timeout=30)
        assert raw.receive("orders", "g", wait_s=0.2) == []  # behind the other one
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < 20  # the poll alone would wait for as long
        try:
            assert next(waiting).status.code == 40401
        except grpc.RpcError as error:  # it was cut off; clients poll again
            assert error.code() in (  # noqa: PT017
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.CANCELLED,
            )
        assert not broker.complaints()


def test_clients_that_read_none_of_their_answers_leave_calls_for_others(
    tmp_path: Path, make_raw: Callable[..., Any], make_topic: Callable[..., str]
) -> None:
    with BrokerProcess(tmp_path, rocketmq_port=0, rocketmq_calls_max=16) as broker:
        topic = make_topic(broker, "orders")
        address = f"127.0.0.1:{broker.rocketmq_port}"
        healthy, stuck = make_raw(address), make_raw(address)
        properties = pb.SystemProperties(message_id="id")
        message = pb.Message(
            topic=pb.Resource(name=topic), system_properties=properties, body=b"x" * 2**21
        )
        for _ in range(4):
            send = pb.SendMessageRequest(messages=[message])
            assert healthy.code("SendMessage", send) == 20000
        unread = []
        for number in range(
            24
        ):  # each is a group of its own, and gets more than a connection takes
            request = pb.ReceiveMessageRequest(
                group=pb.Resource(name=f"g{number}"),
                message_queue=pb.MessageQueue(topic=pb.Resource(name=topic)),
                batch_size=4,
                auto_renew=True,
            )
            unread.append(stuck.stream("ReceiveMessage", request, timeout=60))
            with suppress(grpc.RpcError):  # one too many
                next(unread[-1])  # the status, and nothing behind it
        assert healthy.code("SendMessage", send) == 20000
        for stream in unread:
            stream.cancel()
        assert not broker.complaints()


def greeted(connection: socket.socket) -> bool:
    """Is it a connection that the server takes?"""
    connection.settimeout(30)
    try:
        return connection.recv(1) != b""
    except ConnectionResetError:
        return False


def test_connections_are_limited(tmp_path: Path, make_raw: Callable[..., Any]) -> None:
    with BrokerProcess(tmp_path, rocketmq_port=0, max_connections=3) as broker:
        address = ("127.0.0.1", broker.rocketmq_port)
        taken = [socket.create_connection(address) for _ in range(3)]
        assert [greeted(one) for one in taken] == [True, True, True]
        with socket.create_connection(address) as more:
            assert not greeted(more)
        assert broker.rest("GET", "/admin/v2/brokers/health")[0] == 200  # others have their own
        taken.pop().close()
        raw = make_raw(f"127.0.0.1:{broker.rocketmq_port}")

        def is_let_in() -> bool:
            with suppress(grpc.RpcError):
                return bool(raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000)
            return False

        until(is_let_in, "a client is let in for the one that left")
        for one in taken:
            one.close()
        assert not broker.complaints()


def test_clients_that_do_not_read_what_they_are_told_take_no_memory(
    tmp_path: Path, make_raw: Callable[..., Any]
) -> None:
    """Settings are answered with settings of the same size; sixteen of them may wait for each client."""
    with BrokerProcess(tmp_path, rocketmq_port=0) as broker:
        address = f"127.0.0.1:{broker.rocketmq_port}"
        before = peak_size(broker)
        topics = [pb.Resource(name="x" * 100) for _ in range(2000)]
        told = pb.TelemetryCommand(
            settings=pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=topics))
        )
        stuck = []
        for number in range(25):
            raw = make_raw(address)
            raw.headers["x-mq-client-id"] = f"stuck-{number}"
            stuck.append(raw.begin_talk(iter([told] * 32)))
        healthy = make_raw(address)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            assert healthy.code("Heartbeat", pb.HeartbeatRequest()) == 20000
            time.sleep(0.1)  # sleep: it is asked while the others send
        assert peak_size(broker) - before < 250 * 2**20
        for one in stuck:
            one.cancel()
        assert not broker.complaints()


def test_a_burst_of_calls_is_answered(tmp_path: Path, make_raw: Callable[..., Any]) -> None:
    """Two thousand come while the broker has no time: gRPC would cancel some of them by itself."""
    with BrokerProcess(tmp_path, rocketmq_port=0) as process:
        raw = make_raw(f"127.0.0.1:{process.rocketmq_port}")
        assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000
        process.pause()
        calls = [raw.begin("Heartbeat", pb.HeartbeatRequest()) for _ in range(2500)]
        process.resume()
        assert {call.result().status.code for call in calls} == {20000}
