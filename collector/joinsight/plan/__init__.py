"""Physical plans: rebuilt as Spark's graph, then analysed. Pure: no HTTP, SQL or Spark.

`graph` rebuilds the plan, `operators` and `engines` say what each node is, `texts` parses what it prints; `metrics` are
the values of nodes, `identity` the keys of queries and operators, `changes` and `decisions` what AQE did.
"""
