"""Are the causes right that `joinsight why` names? ``python -m bench.why --help``.

Regressions are planted in real runs of one query on real Spark, each with its cause; pairs of unchanged runs have none.
"""
