"""Physical plans: rebuilt as Spark's graph, then analysed. Pure: no HTTP, SQL or Spark."""
