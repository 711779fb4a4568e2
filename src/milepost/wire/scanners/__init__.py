"""Scanners: the hottest frames read and written by hand, each with a library twin that tests compare it with.

ack_scan      ACK and FLOW commands as official clients write them, read by hand
ack_slices    a set of every second message names half a million ranges
encode        receipts, deliveries, ack responses, and a client's sends
keys          keys of messages, found without parsing what else their metadata says
long_command  a client may name as many messages in one as a frame holds
message_scan  a client's hot bytes
send_scan     one pass over all that one read brought
shape         what the broker must know of its metadata to store, count and deliver it
varint        seven bits a byte, lowest first, the top bit set on all bytes but the last
"""
