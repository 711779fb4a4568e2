"""Pulsar's bytes, without a socket: frames, commands, entries, and the two ends of a connection.

Who reads this package from the outside needs four things:

- `ServerProtocol` and `ClientProtocol`: bytes in, events out, bytes to send (protocol.py, with a worked
  example); the events are in events.py, labels of what goes wrong in reasons.py;
- `replies` and `encode`: what a broker answers, rare and hot; both give the bytes of whole frames;
- `metadata`, `batches`, `chunks`, `compression`: entries and messages taken apart and put together;
- `pulsar_pb2`, by convention `pb`: the protocol's messages, generated from pulsar.proto.

    protocol = ServerProtocol(server_version="milepost")
    for event in protocol.receive(data):
        match event:
            case Sends(producer_id, sends): ...
            case Command(message=pb.CommandConnect()): protocol.accept()
            case Fault(error): ...

It never opens, waits or asks the time, and it trusts nothing: a number from a peer is compared with the
bytes that are there before it is used. Ids are signed everywhere but inside protobuf messages, whose
fields are unsigned (`signed64`, `unsigned64` of `milepost.positions`; `wire_id` for message ids).

batches      packs and unpacks batches
chunks       puts chunks together again
commands     command numbers, and parsing and encoding of commands that are not hot
compression  compresses and decompresses payloads
events       the events that protocol objects yield
extensions   metadata keys by which clients ask for what Pulsar's protocol does not have
frames       cuts frames out of bytes, and builds them
markers      the entries that end transactions
metadata     the parts of an entry: broker entry metadata, checksum, message metadata, payload
murmur       Murmur3, the hash of Key_Shared slots
peer         what the other side said of itself in the handshake
protocol     `ServerProtocol` and `ClientProtocol`: bytes in, events out
reasons      the reasons why a connection was ended, as labels
replies      builds the broker's replies that are not hot, errors included
scanners/    the hottest frames, read and written by hand
"""
