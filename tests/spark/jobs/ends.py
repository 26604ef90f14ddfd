"""Logs, says its arguments, and ends with an exit code, or with its process."""

import os
import sys

from pyspark import SparkContext

log4j = SparkContext._jvm.org.apache.logging.log4j
log4j.LogManager.getLogger("job").warn("logged")
log4j.core.config.Configurator.setRootLevel(log4j.Level.OFF)
print("said", *sys.argv[1:])
if sys.argv[1] == "end":
    os._exit(3)
sys.exit(int(sys.argv[1]))
