"""Runs several commands, separated by semicolons, and says how each ends."""

import sys

from joinsight.cli import main

streams = sys.stdout, sys.stderr
for arguments in sys.argv[1].split(";"):
    sys.stdout, sys.stderr = streams
    sys.argv[1:] = arguments.split()
    try:
        main()
    except SystemExit as end:
        print("exit", end.code)
