"""What a JVM would start with, in several environments.

For each as JSON: a folder of spark-defaults.conf, PYSPARK_SUBMIT_ARGS, options of the builder.
"""

import json
import os
import sys

from pyspark.sql import SparkSession
from session import URL, said

import joinsight

found = []
for folder, arguments, options in json.loads(sys.argv[1]):
    os.environ |= {"SPARK_CONF_DIR": folder, "PYSPARK_SUBMIT_ARGS": arguments}
    made = SparkSession.Builder()
    made._options = dict(options)
    warned = said(lambda made=made: joinsight.attach(made, url=URL))
    found.append([made._options, warned])
print(json.dumps(found))
