"""Producing: from a message to batches, chunks and frames, and from receipts to answers.

batcher               messages gathered until they are many, large or old enough
chunker               a message cut into chunks (PIP-107)
outgoing              what the user said of one, and what waits for its receipt
packer                from a message or a batch to the metadata and payload of what is sent
partitioned_producer  one producer for each partition, and a router between them
producer              one producer of one topic that is not partitioned (or of one partition)
producer_command      the PRODUCER command, from a producer's options
routing               which partition a message goes to
"""
