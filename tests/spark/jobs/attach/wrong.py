"""Attaches with wrong arguments, as JSON: the name of each application, and arguments."""

import json
import sys

from session import URL, builder, run

import joinsight

for name, arguments in json.loads(sys.argv[1]).items():
    run(joinsight.attach(builder(name), **{"url": URL, **arguments}))
