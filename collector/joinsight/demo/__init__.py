"""The demo: a PySpark workload, run in a process of its own with the listener attached."""
