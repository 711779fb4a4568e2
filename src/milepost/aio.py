"""The asyncio client: `from milepost.aio import Client`. What `pulsar.asyncio` has, and a little more."""

from milepost.client.client import Client
from milepost.client.consuming.consumer import Consumer
from milepost.client.consuming.multi_consumer import MultiConsumer
from milepost.client.consuming.reader import Reader
from milepost.client.consuming.table_view import TableView
from milepost.client.messages.message import Message
from milepost.client.producing.partitioned_producer import PartitionedProducer
from milepost.client.producing.producer import Producer
from milepost.client.transactions.transaction import Transaction, TransactionState
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
    "Transaction",
    "TransactionState",
    "PulsarException",
]
