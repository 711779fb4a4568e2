"""The report: recorded positions as series, tables and pictures.

history   records positions as Parquet files, from `GET /milepost/v1/progress`
page      the page of the report: the verdict first, then charts, strips over time and tables
pictures  draws pictures of progress (matplotlib)
report    writes the report: one HTML page, pictures, CSV tables
series    one subscription over time: ages of messages, latencies of acks
"""
