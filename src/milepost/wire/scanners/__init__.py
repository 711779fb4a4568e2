"""Scanners: the hottest frames read and written by hand, each with a library twin that tests compare it with.

ack_scan          reads ACK and FLOW commands
ack_slices        splits an ACK of large ack sets into several
encode            writes receipts, deliveries, answers of acks and transactions, and sends
keys              finds the key of a message without parsing its metadata
long_command      splits a long ACK or REDELIVER into several
message_scan      reads MESSAGE and SEND_RECEIPT, for clients
send_scan         reads SEND frames, all of one read in one pass
shape             reads from an entry's metadata what the broker must know
transaction_scan  reads NEW_TXN, ADD_PARTITION_TO_TXN, ADD_SUBSCRIPTION_TO_TXN and END_TXN
varint            reads and writes varints
"""
