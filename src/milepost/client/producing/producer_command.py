"""Builds the PRODUCER command from a producer's options."""

from __future__ import annotations

from milepost.client.producing.producer_options import ProducerOptions
from milepost.client.schemas import schema_data
from milepost.wire import pulsar_pb2 as pb


def producer_command(
    options: ProducerOptions,
    *,
    topic: str,
    producer_id: int,
    producer_name: str,
    epoch: int,
    topic_epoch: int | None,
) -> pb.CommandProducer:
    """`producer_name`: empty until the broker has given one. `epoch` counts how often it came back;
    `topic_epoch` proves that no other producer took the topic from an exclusive producer meanwhile."""
    command = pb.CommandProducer(
        topic=topic,
        producer_id=producer_id,
        request_id=0,
        epoch=epoch,
        user_provided_producer_name=options.producer_name is not None,
        producer_access_mode=pb.ProducerAccessMode.Name(options.access_mode),
        encrypted=options.encryption_key is not None,
        metadata=[
            pb.KeyValue(key=key, value=text) for key, text in (options.properties or {}).items()
        ],
    )
    if producer_name:
        command.producer_name = producer_name
    if topic_epoch is not None:
        command.topic_epoch = topic_epoch
    if options.initial_subscription_name is not None:
        command.initial_subscription_name = options.initial_subscription_name
    if (schema := schema_data(options.schema)) is not None:
        command.schema.CopyFrom(schema)
    return command
