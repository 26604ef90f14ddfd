"""Everything that Joinsight keeps: the PostgreSQL behind it and what is in it."""
