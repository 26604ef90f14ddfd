"""Physical plans: rebuilt as Spark's own graph, then understood. Pure: knows nothing of HTTP, SQL or Spark itself."""
