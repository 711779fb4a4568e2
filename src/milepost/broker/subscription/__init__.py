"""A subscription: its cursor, its consumers, what it reads, holds, journals and tells them.

ack_journal      how acks reach the disk: those of one turn of the loop become one fact of the journal
broadcast        broadcast groups: each member gets every message, from a cursor of its own
delay_timer      the timer that wakes a subscription when a delayed message is due
delayed          delayed delivery: puts messages aside until their time has come
documents        what the catalog stores of a subscription beside its cursor: properties, resets, idle since
flush_round      the round: read loops that woke run first, then each session is flushed once
held_deliveries  frames that may not go out before a fact is on disk
host             what a subscription needs of the broker that runs it, as interfaces
notices          what consumers are told unasked: who is active, the cursor was moved, the topic ended
pending_acks     acks of transactions: pending until the transaction ends
pending_seeks    seeks that are not durable yet, and the callers that wait for them
read_loop        reads entries for a subscription, from memory or disk, and offers them to its consumers
reset_history    the history of resets: who moved the cursor, from where to where, and who has obeyed
shared_reads     shares what one subscription read with others that read the same entries
stored_runs      gives entries to a consumer as they are stored, many in one frame
subscription     acks, seeks, redeliveries and deliveries of one subscription, on its cursor
"""
