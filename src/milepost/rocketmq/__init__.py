"""The RocketMQ edge: official RocketMQ 5 clients on Milepost's topics, by gRPC, and mqadmin.

A queue is a partition, a queue offset is the index, a consumer group is a Shared subscription. Like `rest/`
it asks the broker; it knows no journal and no file. Nothing here is imported while its ports are off.

server         the edge: its ports, the table of calls, the last resort for errors
grpc/          gRPC over HTTP/2, for asyncio
calls          one call: which client, with which rights, and how a refusal is answered
codes          the codes of the protocol, and the one for each of Milepost's errors
names          names of topics and groups, as RocketMQ allows them and as Milepost has them
clients        the clients that are known, when each was last heard, and the streams that they keep open
peer           the edge as the broker sees it: the other end of a producer or a consumer
routes         which queues a topic has, and where
message_check  what a message that a client sends must be like
mapping        a RocketMQ message as an entry of Pulsar's, and a stored message as RocketMQ's
sending        publishes messages, and answers when they are on disk
durable        awaits what the journal answers
filters/       which messages a poll wants: tags, SQL92
handles        receipt handles: what was delivered, signed
consuming/     polls, acks, and which messages clients hold
transactions/  half messages: sent, ended, asked about
remoting/      mqadmin's protocol: a name server and broker in one
removals/      messages that consumers are not to get any more: dead letters, recalls
"""
