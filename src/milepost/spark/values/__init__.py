"""Values: what a topic's schema is in Spark, decoding by it and writing by it.

columns        the columns of a table: names, Spark types, Arrow types
encoding       encodes columns of rows as payloads of messages
query_columns  the columns that a query asks for, checked against what there is
schema_check   checks that rows with these columns can be written by the topic's schema
target_schema  the schema that rows are written by: the topic's, or one that the user gives
topic_schemas  asks the broker for the schemas of topics
typed          adds the column `value` to batches, and deals with values that do not decode
value_types    the schema of a topic as a Spark type
values         decodes the payloads of a batch to one Arrow array
"""
