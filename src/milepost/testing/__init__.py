"""Test doubles that ship: what Milepost's tests need, its users' tests need.

Nothing in the product imports this package.

broker       on a free port of this machine, with a data directory of its own, gone afterwards
bucket       a bucket in memory that can fail, and lose its answers
catalog      the catalog in memory, without a database
checker/     what clients saw of a broker, judged: one judge for every history
clock        a clock that a test turns by hand
crash        every way a machine may stop in the middle of a workload, one disk each
damage       bytes that change on disk by themselves
disk         what of a trace is durable, what is still volatile, what a crash may leave
faults       which file-system calls fail, and how
files        a file system in memory that can fail, fill up, forget and lie
peer         it remembers what the broker sent, and may be slow
proxy        between a client and a broker, with bad weather made to order
strategies   hypothesis strategies for Milepost's values, for your tests as for ours
trace        everything that a workload did to its disk, in order
"""

from milepost.testing.broker import broker
from milepost.testing.clock import ManualClock
from milepost.testing.crash import Image, images, power_loss
from milepost.testing.files import MemoryFiles
from milepost.testing.peer import Loopback, RecordingPeer
from milepost.testing.proxy import Proxy, Weather

__all__ = [
    "broker",
    "Loopback",
    "RecordingPeer",
    "Proxy",
    "Weather",
    "ManualClock",
    "MemoryFiles",
    "Image",
    "images",
    "power_loss",
]
