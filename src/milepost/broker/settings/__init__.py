"""Settings: what an operator can set, in one table each, checked before the broker starts.

advertised_listeners  the addresses that clients are told, by the network they come from
kept_settings         settings of upstream that are accepted and have no effect in Milepost
policy_settings       settings that are defaults of policies, and the intervals of housekeeping
security_settings     settings of authentication, authorisation and TLS
setting               one setting: its name, type, default and meaning (class Setting)
settings              the table of settings: begin here to add one
"""
