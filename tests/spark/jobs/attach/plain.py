"""Knows nothing of Joinsight; the name of the application."""

import sys

from session import builder, run

run(builder(sys.argv[1]))
