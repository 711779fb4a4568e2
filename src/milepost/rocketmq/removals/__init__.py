"""Messages that consumers are not to get any more.

burials          moves messages to the dead letters of their group
recalls          delayed messages that their producers call back
"""
