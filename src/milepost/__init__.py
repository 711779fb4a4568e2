"""Milepost: a message broker for official Apache Pulsar clients in which every position is exact."""

__version__ = "0.1.0.dev0"
