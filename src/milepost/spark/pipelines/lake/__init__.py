"""The lake: Parquet files, manifests and Delta tables that an archive writes, and how they are read.

delta           a Delta table as a lake
lake            a lake of Parquet files with manifests
lakes           opens a lake of either kind
merge           merges small files of a lake
parts           what one task reads of a lake
row_groups      writes Arrow batches of any size to one Parquet file
schema_columns  the value columns of a lake, by the topic's schema
"""
