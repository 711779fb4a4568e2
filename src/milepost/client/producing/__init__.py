"""Producing: from a message to batches, chunks and frames, and from receipts to answers.

batcher               gathers messages into batches by count, size and time
chunker               cuts a large message into chunks (PIP-107)
outgoing              messages that wait for their receipts
packer                messages and batches to metadata and payload: schema, compression, encryption
partitioned_producer  `Producer` of a partitioned topic
producer              `Producer` of one topic or partition
producer_command      builds the PRODUCER command from a producer's options
producer_options      the options of `Client.create_producer`, checked once
routing               chooses the partition of a message
"""
