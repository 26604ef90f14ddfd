"""Attaches again, before and after the context is made."""

from pyspark.sql import SparkSession
from session import URL, builder, run

import joinsight

joinsight.attach(builder("twice"), url=URL)
joinsight.attach(builder("twice"), url=URL).getOrCreate()
joinsight.attach(SparkSession.builder, url=URL)
run(SparkSession.builder)
