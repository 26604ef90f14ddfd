"""A context that is not attached, then attached ones in the same process; their names."""

import sys

from session import URL, builder, run

import joinsight

run(builder("first, not attached"))
for name in sys.argv[1:]:
    run(joinsight.attach(builder(name), url=URL))
