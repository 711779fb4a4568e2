"""Commands that run and check a broker: serve, config, verify, bucket.

bucket            `milepost bucket`: tries out a bucket
cluster           starts one broker of several on a bucket: its agent, and a process for each shard
conf_text         reads the text of configuration files
config            `milepost config`: shows the settings and where each comes from
hangs             notices that a process hangs, and ends it
logs              the format of log lines: text or JSON
process           runs the broker and its HTTP server in one process until it is stopped
reference         makes docs/configuration.md from the table of settings
serve             `milepost serve`: the options of the broker process
settings_options  the options by which commands are given settings
sources           merges settings from files, environment and options
stopping          handles SIGTERM and Ctrl-C
supervisor        starts several workers, and starts those again that die
verify            `milepost verify`: checks a data directory offline, or a bucket
verify_bucket     reads a bucket as a start would, and checks what it finds
"""
