"""Turns documents into rows with all derived columns (`rows`), and compares executions (`comparison`)."""
