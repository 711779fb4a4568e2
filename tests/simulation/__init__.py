"""A whole broker and its clients in one process, on a virtual clock, by a seed; judged by the checker.

loop.py         the event loop, whose timers follow the virtual clock
site.py         the broker with its disk in memory: started, killed, and started again
dials.py        what a seed draws for its world: features, sizes, how often what happens
producer.py     a client that publishes, and sends again what has no answer
consumer.py     a client that receives, acks, gives back, seeks, and comes again
transactor.py   a client that publishes and acks in transactions
world.py        everything that may happen, the healing, and the verdict
speed.py        how many worlds a second there are
plants.py       bugs to plant, each of which the seeds must find
"""
