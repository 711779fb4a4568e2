"""Messages on the client's side: received, acknowledged, asked for again, encrypted, sought.

ack_sender    gathered for a turn of the loop, sent as few commands, answered together
acks          grouped, merged, and judged by whether they still mean anything
cursor_epoch  how often its position had been moved, when it last heard
encryption    brokers see neither payloads nor keys
inbox         from deliveries to messages that a user may have
key_reader    where a client finds the public and private keys that its messages are encrypted with
message       a message as a consumer hands it out, and the entry that it came in
redelivery    negative acks that wait out their delay, acks that are overdue
seek_target   where a seek goes: an id, a time or an index, and how each is said to a broker
"""
