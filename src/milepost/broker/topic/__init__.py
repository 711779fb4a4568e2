"""A topic: its log, its producers, deduplication, and the order of effects of a publish.

dedup               deduplication: which sends are stored already, judged by sequence ids
dedup_state         stores the sequence ids of producers, and loads them when the topic opens
dedup_switch        switches deduplication on or off while producers are connected
namesakes           topics and subscriptions that are made again: open transactions let go of the old ones
non_persistent      non-persistent topics: messages go to the connected consumers and are not stored
producer            one producer of a topic, and the receipts that it waits for
producer_access     decides which producer may publish: shared, exclusive, waiting, fenced (PIP-68)
producer_admission  lets producers in, makes them wait, displaces and removes them
receipts            when receipts are sent: what a producer sent together waits until it is durable
singles             messages that come one by one to many topics: published and answered together
topic               publishes messages: durable, then visible, then the receipt; owns log and subscriptions
transaction_ends    the end of transactions on its way: who waits for it, and what it means to each topic
"""
