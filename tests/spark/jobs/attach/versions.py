"""Measures twice and attaches in a JVM with another listener; prints the warnings of each, a line each."""

from session import URL, builder, said, work

import joinsight

spark = builder("versions").getOrCreate()


def measure():
    with joinsight.measure(spark):
        work(spark)


for _ in range(2):
    print(*said(measure), sep="")
spark.stop()
print(*said(lambda: joinsight.attach(builder("versions"), url=URL)), sep="")
