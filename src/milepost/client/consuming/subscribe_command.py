"""Builds the SUBSCRIBE command from a consumer's options."""

from __future__ import annotations

from typing import Final

from milepost.client.consuming.subscribe_options import ConsumerOptions
from milepost.client.messages.inbox import Start
from milepost.client.messages.seek_target import reader_data
from milepost.client.policies import ConsumerType, KeySharedMode
from milepost.client.schemas import schema_data
from milepost.wire import pulsar_pb2 as pb

# Tells a Milepost broker that this consumer obeys an operator's reset where it is.
FOLLOWS_RESETS: Final = {"milepost.reset": "in-place"}


def subscribe_command(
    options: ConsumerOptions,
    *,
    topic: str,
    consumer_id: int,
    consumer_name: str,
    epoch: int,
    cursor_epoch: int | None,
    start: Start | None,
) -> pb.CommandSubscribe:
    """`start`: for a cursor that the broker forgets; durable ones know their place. `cursor_epoch`: of
    the last move that we know of, so that the broker tells us of one that we missed."""
    command = pb.CommandSubscribe(
        topic=topic,
        subscription=options.subscription_name,
        subType=pb.CommandSubscribe.SubType.Name(options.consumer_type),
        consumer_id=consumer_id,
        request_id=0,
        consumer_name=consumer_name,
        durable=options.is_durable,
        read_compacted=options.is_read_compacted,
        initialPosition=pb.CommandSubscribe.InitialPosition.Name(options.initial_position),
        replicate_subscription_state=options.replicate_subscription_state_enabled,
        metadata=[
            pb.KeyValue(key=key, value=text)
            for key, text in {**options.all_properties, **FOLLOWS_RESETS}.items()
        ],
        consumer_epoch=epoch,
        cursor_epoch=cursor_epoch,
    )
    if options.priority_level:
        command.priority_level = options.priority_level
    if (schema := schema_data(options.schema)) is not None:
        command.schema.CopyFrom(schema)
    if start is not None:
        command.start_message_id.CopyFrom(reader_data(start))
    if options.consumer_type is ConsumerType.KeyShared:
        policy = options.key_shared_policy
        meta = command.keySharedMeta
        meta.keySharedMode = pb.AUTO_SPLIT
        if policy is not None:
            if policy.key_shared_mode is KeySharedMode.Sticky:
                meta.keySharedMode = pb.STICKY
            meta.allowOutOfOrderDelivery = policy.allow_out_of_order_delivery
            for first, last in policy.sticky_ranges or ():
                meta.hashRanges.add(start=first, end=last)
    return command
