"""Reads Spark's event logs into the same documents that the listener sends."""
