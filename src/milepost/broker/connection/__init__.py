"""Connections: sockets, sessions, who may do what, and a handler for each command.

access_control  asks who is there and whether they may, and remembers whom it turned away
handlers/       one file a command family
listener        how a listening socket ends
server          moves bytes between sockets and sessions, nothing more
session         one connection's state
"""
