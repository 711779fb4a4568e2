"""What consumers ask: polls, acks, leases.

leases           which messages clients hold, until when, and which wait behind them
subscriptions    the subscription that a group reads by: found, or made
queues           one queue of a group: its consumer, what has arrived, its leases
groups           a group on a topic: parked polls, and which queue serves them
answer_size      how large an answer a client reads, and messages that are made to fit
receiving        receive, ack, change of invisible time, dead letters
"""
