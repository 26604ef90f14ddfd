"""Uses the database of a folder until its input ends."""

import signal
import sys
from pathlib import Path

from joinsight.store.embedded import embedded_postgres

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
try:
    with embedded_postgres(Path(sys.argv[1])) as url:
        print(url, flush=True)
        sys.stdin.read()
except KeyboardInterrupt:
    sys.exit(3)
