"""A subscription: its cursor, its consumers, what it reads, holds, journals and tells them.

ack_journal      the acks of one turn of the loop, on their way to the disk as one fact, and who waits
broadcast        a subscription each of whose members gets every message, from a cursor of its own
delayed          messages that name a time are put aside until it has come
documents        what the catalog keeps of subscriptions beside their cursors, written when it changes
ending           consumers of a terminated topic are told when their subscription has acked everything
flush_round      the feeds that woke run, then the sessions that were written to are flushed, each once
held_deliveries  frames on their way to its consumers, and those that must wait
notices          what a consumer's client is told unasked, if it knows the command
parts            what a subscription consists of, as others ask it
pending_seeks    those of a subscription that are not durable yet, and who waits until none is
read_loop        reads entries where they lie and offers them
reset_history    who moved its cursor, when, from where to where, and who has obeyed
shared_reads     what the feeds of a broker read of late, and what is being read, for feeds that want
subscription     a cursor, the consumers that share it, and what they are told
"""
