"""Are alarms about slower queries right, and how soon? ``python -m bench.alarms --help``.

Histories of nightly queries are generated: their noise is drawn in blocks from the durations of a real query that ran
again and again (`repetitions.json`), so that it keeps its tails and its dependence on the run before; each query has
its own weekdays. Nothing changes in some histories; in others all runs from a night on take 30 % more, or 1 % more
each day.
"""
