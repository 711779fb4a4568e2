"""The asyncio client: `from milepost.aio import Client`. What `pulsar.asyncio` has, and a little more."""

from milepost.client.client import Client
from milepost.client.consumer import Consumer
from milepost.client.message import Message
from milepost.client.multi_consumer import MultiConsumer
from milepost.client.partitioned_producer import PartitionedProducer
from milepost.client.producer import Producer
from milepost.client.reader import Reader
from milepost.client.table_view import TableView
from milepost.errors import MilepostError as PulsarException

__all__ = [
    "Client",
    "Producer",
    "PartitionedProducer",
    "Consumer",
    "MultiConsumer",
    "Reader",
    "TableView",
    "Message",
    "PulsarException",
]
