"""Commands that run and check a broker: serve, config, verify.

conf_text         the text of configuration files as (line, key, value)
config            the settings as the broker would take them, and why
logs              how log records look: lines for a person, or one JSON object a line for a machine
process           the broker and its HTTP edge on one loop, until it is told to stop
reference         the page about settings, made from the table of settings
serve             the flags of the broker's process
settings_options  the flags by which any command that needs settings is given them
sources           where settings come from: files, the environment and flags, in that order
stopping          SIGTERM or Ctrl-C set an event, and what is under way ends well
verify            checks a data directory without a broker, and changes nothing in it
"""
