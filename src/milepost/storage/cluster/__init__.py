"""Several brokers on one bucket: who is there, who has which shard, and what all of them share.

assignment  which broker claims a free shard, and which gives one away
board       the board: which brokers are there, as one of them sees it
document    the document of the cluster: its name, how many shards it has, its secret
member      one broker of the cluster: what it says on the board, what it claims and gives up
notice      the notice: what a broker says of itself on the board
part        a part of a bucket, with keys of its own
"""
