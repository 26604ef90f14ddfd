"""Attaches beside listeners of spark-submit, and prints all."""

from session import URL, builder, work

import joinsight

spark = joinsight.attach(builder("others"), url=URL).getOrCreate()
print(spark.sparkContext.getConf().get("spark.extraListeners"))
work(spark)
spark.stop()
