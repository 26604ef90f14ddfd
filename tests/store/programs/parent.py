"""Uses the database of a folder, and has a child by fork that goes on."""

import os
import sys
import time
from pathlib import Path

from joinsight.store.embedded import _Server, embedded_postgres

server = _Server(Path(sys.argv[1]))
with embedded_postgres(server.folder) as url, server.locked():
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
with embedded_postgres(server.folder) as url:
    print(url, flush=True)
    sys.stdin.read()
os.kill(child, 9)
