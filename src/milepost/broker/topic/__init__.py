"""A topic: its log, its producers, deduplication, and the order of effects of a publish.

dedup               which sends of a topic's producers are stored already, by their sequence ids
dedup_state         begun, and brought back at the next start
dedup_switch        deduplication switched while a topic is in use, with nothing judged by halves
non_persistent      topics that store nothing: messages go to the consumers that are connected
producer            one session's right to publish to a topic, and the receipts it waits for
producer_access     who may publish to a topic, when some want it for themselves alone (PIP-68)
producer_admission  producers come, wait for their turn, are displaced, and leave
publication         consecutive sends of one producer, from when they are judged to when they are answered
topic               one log, its producers and its subscriptions
"""
