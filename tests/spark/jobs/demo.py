"""Runs the demo's workload in a folder, and writes what Spark saw to a file."""

import json
import sys
from pathlib import Path

from tests.exactness import oracle

from joinsight.demo import workload

data, out = Path(sys.argv[1]), Path(sys.argv[2])
spark = workload.open_session(data, {"spark.appStateStore.asyncTracking.enable": "false"})
workload.generate(spark, data, workload.print_step)
workload.run(spark, data, workload.print_step)
out.write_text(json.dumps(oracle.dump(spark)["executions"]))
spark.stop()
