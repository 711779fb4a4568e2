"""Values: what a topic's schema is in Spark, decoding by it and writing by it.

columns        names, Spark types, Arrow types, and a row as the plain reader makes it
encoding       columns of rows to the payloads of messages, by the schema of the topic that they are
query_columns  what a query wants: the columns of its schema, checked against what there is, and how
schema_check   can rows with these columns be written by this schema? Asked before anything is written
target_schema  the topic's own, or one that the user gives
topic_schemas  the one that a query reads by, and those that wrote its messages
typed          batches whose column `value` is what the topic's schema says, and what becomes of bad ones
value_types    what a topic's schema is in Spark
values         bytes of a batch's messages to one Arrow array, by the schema that wrote them
"""
