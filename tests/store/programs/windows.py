"""As on Windows: without fcntl and pwd."""

import importlib.util  # noqa: F401  # these five behave otherwise where they are imported as on Windows
import platform  # noqa: F401
import socket  # noqa: F401
import subprocess  # noqa: F401
import sys
from pathlib import Path

import psycopg  # noqa: F401

sys.platform = "win32"
sys.modules |= {"fcntl": None, "pwd": None}  # type: ignore[dict-item]

from joinsight.base.errors import DatabaseError  # noqa: E402
from joinsight.store.embedded import embedded_postgres  # noqa: E402

try:
    with embedded_postgres(Path("data")):
        sys.exit("it runs")
except DatabaseError as error:
    assert "Windows" in str(error) and "JOINSIGHT_DATABASE_URL=postgresql+psycopg://" in str(error)
