"""Several brokers on one bucket: who is there, who has which shard, and what all of them share.

agent       the agent: keeps a broker's notice on the board, and has shards opened and closed
assignment  which broker claims a free shard
balance     which shard a broker gives away because it carries much more than another
board       the board: which brokers are there, as one of them sees it
document    the document of the cluster: its name, how many shards it has, its secret
hail        what is said to an agent's port: news, and questions
link_tls    TLS between brokers, with the certificate that each of them has
load        the load of shards, in memory that the processes of a broker share
member      one broker of the cluster: what it says on the board, what it claims and gives up
notice      the notice: what a broker says of itself on the board
owners      who serves which shard, in a local file for the broker's processes
part        a part of a bucket, with keys of its own
registry    the registry: one object for what all shards share
right       the right to serve, which all processes of one broker share
"""
