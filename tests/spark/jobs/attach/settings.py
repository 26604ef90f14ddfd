"""Contexts one after another with settings alone, the last two in another thread; a prefix of names, KEY=VALUE."""

import sys
from threading import Thread

from session import builder, run

prefix, *pairs = sys.argv[1:]


def context(name):
    made = builder(name)
    for pair in pairs:
        made = made.config(*pair.split("=", 1))
    run(made)


for number in 1, 2:
    context(f"{prefix} {number}")
for number in 3, 4:
    thread = Thread(target=context, args=(f"{prefix} {number}",))
    thread.start()
    thread.join()
