"""`milepost console`: the console's pages on this machine, for another Milepost or an Apache Pulsar.

A Milepost answers the pages itself. Apache Pulsar has no verdicts, strips or previews; what the pages
ask for is made here from what its REST tells, counted in entries, and the pages say what it cannot tell.

console          `milepost console`: serves the pages, and passes on what they ask for
pulsar           answers the pages for an Apache Pulsar: which path is made from which calls
pulsar_groups    the progress of subscriptions and their verdicts, from Apache Pulsar's statistics
pulsar_messages  messages of an Apache Pulsar for people to read
pulsar_overview  all topics of an Apache Pulsar: numbers, lists, policies
pulsar_reset     resets of Apache Pulsar's subscriptions, with a preview counted here
"""
