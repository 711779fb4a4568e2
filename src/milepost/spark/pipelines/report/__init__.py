"""The report: recorded positions as series, tables and pictures.

history   what `GET /milepost/v1/progress` said, again and again, as Parquet files
pictures  lines over time, bars by group
report    one HTML page that needs nothing else, its pictures beside it, its tables as CSV
series    how long messages were inflight, and how long until acked
"""
