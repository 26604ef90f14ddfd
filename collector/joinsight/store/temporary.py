"""A folder that is removed whatever ends this process, with the database in it: for `joinsight open`.

A shell waits for the end of its input, which the kernel closes with this process, however it ends. If the folder is
still there then, ``python -m joinsight.store.temporary FOLDER`` stops PostgreSQL and removes it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from joinsight.base.errors import DatabaseError
from joinsight.store import embedded

_DATABASE = "data"
# Ends by the end of its input only: Ctrl-C in a terminal reaches all processes of a job
_WAIT = 'trap "" HUP INT TERM; while read -r _; do :; done; test ! -e "$2" || exec "$0" -m "$1" "$2"'


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder; what is in `database_in` must be in use by this process only."""
    folder = Path(tempfile.mkdtemp(prefix="joinsight-"))
    command = ["/bin/sh", "-c", _WAIT, sys.executable, "joinsight.store.temporary", str(folder)]
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True):
        try:
            if os.geteuid() == 0:
                folder.chmod(0o711)  # the account of PostgreSQL must pass through
            yield folder
        finally:
            remove(folder)


def database_in(folder: Path) -> Path:
    """The folder of the embedded PostgreSQL in a temporary folder."""
    return folder / _DATABASE


def remove(folder: Path) -> None:
    """Remove the folder, after stopping a server that a killed process left in it."""
    with suppress(DatabaseError):
        embedded.stop(database_in(folder))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    remove(Path(sys.argv[1]))
