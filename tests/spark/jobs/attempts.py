"""An application, two attempts of one, and one that is attached to late: URL LISTENER KEY=VALUE...

The late one comes first: the settings of the first context are those of the JVM.
"""

import sys

from pyspark.sql import SparkSession

import joinsight

url, listener, *conf = sys.argv[1:]


def session(master, name, **more):
    builder = SparkSession.builder.master(master).appName(name)
    return builder.config(map={**dict(pair.split("=", 1) for pair in conf), **more}).getOrCreate()


listening = {"spark.extraListeners": listener, "spark.joinsight.url": url}
for name, master, more in (
    ("late", "local-attempt-3", {}),
    ("plain", "local[1]", listening),
    ("first", "local-attempt-1", listening),
    ("second", "local-attempt-2", listening),
):
    spark = session(master, name, **more)
    if name == "late":
        joinsight.attach(SparkSession.builder, url=url)
    spark.sql("SELECT count(*) FROM range(10) a JOIN range(10) b USING (id)").collect()
    spark.stop()
