"""Attaches to a context that runs; the names of the application and of the job."""

import sys

from pyspark.sql import SparkSession
from session import URL, builder, run

import joinsight

application, job = sys.argv[1:]
builder(application).getOrCreate().range(5).count()
joinsight.attach(SparkSession.builder, url=URL, job_name=job, tags={"team": "sales"})
run(SparkSession.builder)
