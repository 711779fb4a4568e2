"""The broker: topics and their steps. Positions, cursors, wire and storage meet here.

The rooms are layers, lowest first in `docs/design.md`: a room imports those below it, never those above.

auth/             authentication and authorisation: who the client is, and what it may do
broker            the running broker: opens and closes topics, starts, stops and ticks
connection/       the TCP server, sessions, access control, and a handler for each wire command
directory/        the tenants, namespaces, topics, bundles and schema versions that exist
dispatch/         which consumer gets the next entry, and the frames it is sent as
dynamic_settings  the settings that an operator changes while the broker runs, kept over a restart
limits/           rates, connections, memory and time slices: how much may pass, and what waits
messages/         message ids to indexes and back, chunked messages, compaction, backlog analysis
metrics/          the counters, rates and samples that the broker counts; `rest/metrics/` shows them
monitoring/       stats, progress, verdicts, the self-check and the log of connections; changes nothing
operations/       resets, skips, expiry, retention, quotas, unloading, deleting: by operators and policies
peer              what the broker needs of a connection, as an interface
policies/         the policies of namespaces and topics: their table, their JSON, and what holds for a topic
run               starts a broker: recovers its data directory and opens its ports
settings/         the settings of the broker: their names, types, defaults and meaning
subscription/     one subscription: its cursor and consumers, its read loop, its acks on their way to disk
topic/            one topic: publishing, producers, deduplication, and non-persistent topics
transactions/     transactions: which are open, what belongs to each, and what their end means
workers/          several processes that serve as one broker: which has a topic, and what they ask each other
topic_loader      opens a topic: from its states in the catalog and the journal to running subscriptions
"""
