"""The tour of `milepost demo`.

demo       a short tour that a newcomer can watch, and that fails if a promise does not hold
demo_lake  events into a lake by Spark, proven equal, and a picture of who read them
quiet      what a child says at its start goes to a file, and is shown only if the start fails
tour       how a tour talks: numbered steps, what happened, and promises that end it when they do not hold
"""
