"""Dispatch: which consumer gets the next entry, and as which frames. Decisions, no effects.

active_consumer  which of a Failover subscription's consumers gets the messages
chunk_gate       which chunks of a subscription may be delivered
chunk_handover   chunked messages that have begun to go out, each to the consumer that owns it
chunk_restart    a frame that makes a client forget the half of a chunked message that it has
consumer         one session's hold on a subscription, from SUBSCRIBE until it leaves
dispatchers      who gets the next entry
frames           entries and the frames they become
key_shared       who may be given a message of a key now, so that each key stays in order
key_slots        the hash space of Key_Shared keys, and which consumer owns which part of it
passed_over      the entries that a dispatcher looked at and could not give away, by what each waits for
split_slots      AUTO_SPLIT without the ring
"""
