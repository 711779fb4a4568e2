"""The remoting protocol: RocketMQ's name server and broker in one, as far as mqadmin asks them.

Like `rest/` it asks the broker; it knows no journal and no file. It needs no gRPC, and nothing here is
imported while `rocketmq_namesrv_port` and `rocketmq_namesrv_tls_port` are off. Requests of producers and
consumers of RocketMQ 4 are refused.

frames           bytes to commands and back: lengths, JSON headers, binary headers
json_text        JSON bodies as mqadmin reads them, with objects as keys
codes            the codes of requests and answers, and the one for each of Milepost's errors
server           connections: limits, times, one request after the other
request          one request: its fields, who asks, with which rights
name_server      routes, the cluster, the list of topics
topics           status and settings of topics, offsets by time; makes and deletes topics
consumer_groups  progress, resets and settings of consumer groups
group_settings   the settings of groups, kept in the catalog
connections      which consumers and producers are connected
messages         reads single messages: by place, by id, by key
message_layout   a stored message in RocketMQ's own bytes
broker_info      the broker's runtime numbers and settings
"""
