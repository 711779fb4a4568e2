"""Commands that publish and read messages: produce, consume, peek, perf.

consume           print messages, as a Unix filter likes them
latencies         counted in buckets that are one percent wide
lines             what `milepost produce` sends: arguments, files, or lines of standard input
messaging_client  how a command runs the asyncio client: on a loop of its own, several works at once
peek              look at messages without consuming them
perf              how fast a broker takes messages and gives them back
produce           publish arguments, files, or the lines of standard input
templates         how `milepost consume` prints a message: a format string, or a line of JSON
"""
