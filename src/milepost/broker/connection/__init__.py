"""Connections: sockets, sessions, who may do what, and a handler for each command.

access_control  checks a client's identity and rights for each command, and remembers what it refused
handlers/       one file a command family of the wire protocol: what the broker does for each command
listener        opens and closes listening sockets
server          the TCP server: moves bytes between sockets and sessions
session         one connection: routes events to handlers, and pauses reading
"""
