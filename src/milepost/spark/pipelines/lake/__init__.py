"""The lake: Parquet files, manifests and Delta tables that an archive writes, and how they are read.

delta           the same files, and Delta's own log in place of manifests
lake            parquet files and the manifests that say which of them count, and for which indexes
lakes           parquet with manifests, or a Delta table
merge           many small files of a lake into few, unnoticed by readers
parts           what one task reads of a lake, whatever kind of lake it is
row_groups      arrow batches of any size into one Parquet file that is on disk when it has its name
schema_columns  what a lake has of each message beside its bytes: the value as the topic's schema says
"""
