"""Programs that tests run."""

from __future__ import annotations

import subprocess
from typing import Any


def ran(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command, which must succeed."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done
