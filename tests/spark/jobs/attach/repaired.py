"""Attaches where settings of spark-submit have switched a listener off: with wrong settings, then with right ones."""

from pyspark.sql import SparkSession
from session import URL, builder, run

import joinsight

builder("repaired").getOrCreate()
joinsight.attach(SparkSession.builder, url=URL, token_file="/nowhere/token")
joinsight.attach(SparkSession.builder, url=URL)
joinsight.attach(SparkSession.builder, url=URL)
run(SparkSession.builder)
