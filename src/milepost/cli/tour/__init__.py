"""The tour of `milepost demo`.

demo          `milepost demo`: a short tour that checks what it shows
demo_cluster  `milepost demo --cluster`: three brokers on a bucket, one of them killed
demo_lake     the part of the tour that archives events by Spark
quiet         keeps the output of child processes in a file, shown if they fail
tour          prints the steps of a tour, and ends it when a promise does not hold
"""
