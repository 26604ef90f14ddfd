"""The history in Spark: tables as DataFrames, exported as Parquet, and rolled up by day."""
