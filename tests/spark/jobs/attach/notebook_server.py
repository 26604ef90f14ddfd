"""The JVM of a notebook server, which has the jar and takes no other, runs before Python; its class path."""

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from session import URL, builder, run

import joinsight

with tempfile.TemporaryDirectory() as folder:
    info = Path(folder) / "info"
    opened = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("sun.nio.ch", "java.nio", "java.util")]
    server = "org.apache.spark.api.python.PythonGatewayServer"
    java = subprocess.Popen(
        ["java", *opened, "-cp", sys.argv[1], server],
        stdin=subprocess.PIPE,
        env={**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)},
    )
    while not info.exists():
        assert java.poll() is None
    (port, length), secret = struct.unpack("!ii", info.read_bytes()[:8]), info.read_bytes()[8:]
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret[:length].decode()}
run(joinsight.attach(builder("notebook server"), url=URL))
java.stdin.close()
java.wait()
