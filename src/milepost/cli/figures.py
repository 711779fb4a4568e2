"""Figures for people: ages and sizes in two or three digits with a unit, and short names of topics.

>>> age(61_000), size(4_404_019), short_topic("persistent://public/default/orders")
('61s', '4.2 MiB', 'orders')
"""

from __future__ import annotations

from milepost.errors import InvalidInput


def age(milliseconds: int) -> str:
    """Two figures' worth of a duration.

    >>> [age(ms) for ms in (0, 900, 61_000, 5_400_000, 200_000_000)]
    ['0s', '0.9s', '61s', '90m', '55h']
    """
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f}s" if milliseconds else "0s"
    for unit, size_s in (("s", 1), ("m", 60), ("h", 3600)):
        if seconds / size_s < 100:
            return f"{int(seconds / size_s)}{unit}"
    return f"{int(seconds / 86400)}d"


def size(count_bytes: float) -> str:
    """Bytes in the unit that needs the fewest digits.

    >>> [size(count) for count in (0, 1023, 1536, 10 * 2**20, 3 * 2**40, 5000 * 2**40)]
    ['0 B', '1023 B', '1.5 KiB', '10 MiB', '3.0 TiB', '5000 TiB']
    """
    if count_bytes < 1024:
        return f"{int(count_bytes)} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        count_bytes /= 1024
        if count_bytes < 1024 or unit == "TiB":
            return f"{count_bytes:.1f} {unit}" if count_bytes < 10 else f"{count_bytes:.0f} {unit}"
    raise AssertionError("the last unit takes everything")


def short_topic(topic: str) -> str:
    """The shortest text that commands read as this topic.

    >>> short_topic("persistent://acme/shop/orders"), short_topic("non-persistent://public/default/x")
    ('acme/shop/orders', 'non-persistent://public/default/x')
    """
    from milepost.positions.names import TopicName  # not for a command's help

    try:
        name = TopicName.parse(topic)
        for short in (name.local_name, f"{name.namespace}/{name.local_name}"):
            if _means(short, name.text):
                return short
    except InvalidInput:  # a newer broker may know names that this does not
        return topic
    return topic


def _means(short: str, topic: str) -> bool:
    from milepost.positions.names import TopicName

    try:
        return TopicName.parse(short).text == topic
    except InvalidInput:
        return False
