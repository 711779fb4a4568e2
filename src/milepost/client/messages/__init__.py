"""Messages on the client's side: received, acknowledged, asked for again, encrypted, sought.

ack_sender    sends acks: those of one turn of the loop in few commands
acks          groups and merges acks, and drops those that a seek made void
cursor_epoch  the consumer epoch: how often the position was moved, as far as the client knows
encryption    end-to-end encryption of messages
inbox         deliveries to messages: unpacks batches and chunks, drops duplicates and what is stale
key_reader    reads the public and private keys of encryption
message       `Message`, as a consumer hands it out
redelivery    negative acks with their delays, and ack timeouts
seek_target   the target of a seek: an id, a time or an index
"""
