"""A load generator that speaks Pulsar's protocol: the same bytes for Milepost and for its peers.

It builds on the frames of `milepost.wire` and on nothing else of the product, encodes what it sends
before the clock runs, and looks at no more of an answer than it counts, so that the server is the
bottleneck where two processes share a machine.
"""
