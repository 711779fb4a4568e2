"""Test doubles that ship: what Milepost's tests need, its users' tests need.

    broker.py   a broker on a free port, for as long as a test runs
    peer.py     the other end of a connection, without a socket
    proxy.py    between a client and a broker: delays, splits, merges, pauses, cuts
    clock.py    ManualClock: time moves when told
    files.py    MemoryFiles: a file system that fails, fills up, forgets and lies
    faults.py   which calls fail, and how
    trace.py    everything done to the disk, in order, and marks between
    disk.py     the disk model: what is durable, what a crash may leave
    crash.py    images: every way to stop in the middle, one disk each
    damage.py   flipped bits, lost ends, misdirected blocks

Nothing in the product imports this package.
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
