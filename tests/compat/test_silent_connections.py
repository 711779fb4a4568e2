"""Connections that say nothing, more than there are descriptors: those who publish notice nothing."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pulsar
from compat.broker_process import BrokerProcess

DESCRIPTORS = 200


def test_silent_connections_take_no_descriptor_from_the_journal(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, journal_size_max="1 MiB", handshake_timeout_s=3)
    broker.descriptors = DESCRIPTORS
    broker.start()
    with contextlib.ExitStack() as stack:
        stack.callback(broker.kill)
        client = pulsar.Client(broker.url)
        stack.callback(client.close)
        producer = client.create_producer("t", send_timeout_millis=20_000)
        producer.send(b"first")
        for port in (broker.port, broker.http_port):
            for _ in range(2 * DESCRIPTORS):
                silent = socket.socket()
                stack.callback(silent.close)
                silent.setblocking(False)
                silent.connect_ex(("127.0.0.1", port))
        deadline = time.monotonic() + 6
        sent = 0
        while time.monotonic() < deadline or sent < 40:  # the journal rolls again and again
            producer.send(bytes(256 * 1024))
            sent += 1
        assert "refused" not in broker.complaints()
        # The silent ones were closed meanwhile: others are heard again.
        other = pulsar.Client(broker.url, operation_timeout_seconds=20)
        stack.callback(other.close)
        other.create_producer("u").send(b"heard")
