"""Measures the queries of the driver's own process: in a block, a notebook's cell or a test, without a collector.

`measurement` turns a measurement's documents into the same rows, texts and drawings as elsewhere. `keys` asks the data
for the hottest keys of a join or shuffle, which `logical` finds in the session's own plan. `variants` compares several
queries; `pytest_plugin` is the fixture, and `checking` checks budgets and golden plans for it.
"""
