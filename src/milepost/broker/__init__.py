"""The broker: topics and their steps. Positions, cursors, wire and storage meet here.

The rooms are layers, lowest first in `docs/design.md`: a room imports those below it, never those above.

auth/             who is there, and what may they do
broker            owns the catalog's view of what exists, the open topics, and the ticks
connection/       sockets, sessions, who may do what, and a handler for each command
directory/        what exists
dispatch/         which consumer gets the next entry, and as which frames
dynamic_settings  those that are changed while the broker runs, and stay changed when it starts again
limits/           how much may pass, be held or be asked for, and who waits when it is too much
messages/         from ids to indexes and back, chunks, compaction, backlogs
metrics/          counts and rates that the broker keeps of itself
monitoring/       numbers and verdicts of one moment
operations/       what operators, policies and the clock do to topics and subscriptions
peer              something that can be written to, and may be slow
policies/         what may be set for a namespace or a topic, each declared once
settings/         what an operator can set, in one table each, checked before the broker starts
subscription/     its cursor, its consumers, what it reads, holds, journals and tells them
topic/            its log, its producers, deduplication, and the order of effects of a publish
topic_loader      from the states of a topic, as the catalog and the journal have them, to its
"""
