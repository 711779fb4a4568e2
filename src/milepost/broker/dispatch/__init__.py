"""Dispatch: which consumer gets the next entry, and as which frames. Decisions, no effects.

active_consumer  chooses the active consumer of a Failover subscription
chunk_acks       what acks, skips and give-backs mean for chunked messages: all chunks of one, or none
chunk_gate       holds back the chunks of messages that are not complete
chunk_handover   sends all chunks of a message to the consumer that was chosen for it, without a break
chunk_restart    the frame that makes a client drop a chunked message of which it has a part
consumer         one consumer of a subscription: permits, unacked messages, priority, epoch
dispatchers      chooses the consumer of the next entry: Exclusive, Failover, Shared and Key_Shared
frames           entries to MESSAGE frames: one by one, or in runs
hidden_messages  passes over markers, messages of aborted transactions and recalled messages
key_shared       which consumer may have a message of a key now, so that each key stays in order
key_slots        the hash slots of Key_Shared, and the consumer that owns each
passed_over      entries that no consumer could take yet, by what each waits for
split_slots      shares out the slots of Key_Shared in AUTO_SPLIT mode
unshown          what an ack does not speak for: messages that its sender was not shown
"""
