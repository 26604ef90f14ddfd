"""``python -m joinsight.cli``: the command, where its script is not on PATH."""

from joinsight.cli import main

main()
