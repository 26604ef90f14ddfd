"""Measures the queries of the driver's own process: in a block, a notebook's cell or a test, without a collector."""
