"""Commands that publish and read messages: produce, consume, peek, perf.

consume           `milepost consume`: prints messages
latencies         counts latencies in buckets one percent wide
lines             the messages that `milepost produce` sends: arguments, files, standard input
messaging_client  runs the asyncio client inside a command
peek              `milepost peek`: prints messages without consuming them
perf              `milepost perf`: measures publishing and consuming
produce           `milepost produce`: publishes messages
templates         how `milepost consume` prints a message: a format string or JSON
values            payloads as JSON by the schemas of their topic, and JSON as payloads
where             conditions on messages: `--where`
"""
