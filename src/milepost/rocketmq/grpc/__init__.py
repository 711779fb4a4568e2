"""gRPC over HTTP/2 for asyncio: what RocketMQ's clients speak, and nothing more of either.

`docs/decisions/0024-http2-of-our-own.md` says why it is not the library.

frames      the layout of HTTP/2's frames: kinds, flags, settings, error codes
headers     header blocks: read with what was read before kept, written as they are
http2       one connection without its socket: bytes in, events out, bytes to send; flow control and bounds
statuses    the status that ends a call, and the time that a client gives it
call        one call: messages in and out, its time, its end
connection  one socket: moves bytes, starts calls, keeps the times
server      listens; the table of methods, and what all connections together may take
"""
