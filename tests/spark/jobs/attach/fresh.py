"""Attaches before the first session of the process; the name of the application."""

import sys

from session import URL, builder, run

import joinsight

run(joinsight.attach(builder(sys.argv[1]), url=URL))
