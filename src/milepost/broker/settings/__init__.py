"""Settings: what an operator can set, in one table each, checked before the broker starts.

advertised_listeners  the addresses of one broker, by the network that a client comes from
kept_settings         dynamic settings of upstream that are about machinery which is not here
policy_settings       the settings that policies fall back on, and how often what they ask for is
security_settings     who is let in, what they may do, and how the bytes are protected
setting               what it is called, what it accepts, what it means
settings              one table, one frozen object
"""
