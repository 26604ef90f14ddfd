"""Sessions of one context, each in its thread, in which it attaches again."""

from threading import Thread

from pyspark.sql import SparkSession
from session import URL, builder, work

import joinsight

spark = joinsight.attach(builder("sessions"), url=URL).getOrCreate()


def run(session):
    joinsight.attach(SparkSession.builder, url=URL)
    work(session)


threads = [Thread(target=run, args=(spark.newSession(),)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
work(spark)
spark.stop()
