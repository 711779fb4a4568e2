"""`milepost migrate`: topics of another broker, with everything that belongs to them.

Messages are copied as the entries that the source stores: batches stay batches, chunks stay chunks, and no
field of their metadata changes. The producer on the target is exclusive, so what the target holds is always
a beginning of what the source sent: a run that was killed goes on behind it.

comparing   reads both sides again: every entry, and where each subscription stands on the target
copying     copies the entries of one partition, from where the target ends
entries     one entry of either side: its parts, and which chunks a broker does not store twice
migrate     `milepost migrate`: the options, the steps in their order, the report
plan        looks at both sides before the first write: what would be done, and what stands against it
policies    policies of namespaces and topics, and those that hold while a topic is copied
reading     a reader of entries as they are stored
side        one of the two brokers: its HTTP side and its binary side
standings   what a subscription has acked, as the source tells it and as the target is told
writing     an exclusive producer of entries as they are
"""
