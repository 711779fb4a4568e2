"""The asyncio client: `from milepost.aio import Client`."""

from milepost.client.client import Client
from milepost.client.consumer import Consumer
from milepost.client.message import Message
from milepost.client.multi_consumer import MultiConsumer
from milepost.client.partitioned_producer import PartitionedProducer
from milepost.client.producer import Producer
from milepost.client.reader import Reader

__all__ = [
    "Client",
    "Producer",
    "PartitionedProducer",
    "Consumer",
    "MultiConsumer",
    "Reader",
    "Message",
]
