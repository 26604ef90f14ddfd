"""Measures the queries of the driver's own process: in a block, a notebook's cell or a test, without a collector.

`measurement` turns a measurement's documents into the same rows, texts and drawings as elsewhere, `variants` compares
several; `pytest_plugin` is the fixture, and `checking` checks budgets and golden plans for it.
"""
