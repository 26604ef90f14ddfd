"""Compiles the listener with ``javac`` against the jars of the installed PySpark, and packs it, byte for byte the same.

Runs as hatchling's build hook (wheel and editable install) and as a script: ``python listener/build_hook.py``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script where hatchling is not installed
    BuildHookInterface = object  # type: ignore[misc,assignment]

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "listener" / "src"
PACKAGE = ROOT / "collector" / "joinsight"
JAR = PACKAGE / "jars" / "joinsight-listener.jar"
# Of the collector's package, and read by the listener too
RESOURCES = [PACKAGE / "incomplete.json", PACKAGE / "redaction.json"]
# Spark 3.4 and 3.5 still run on Java 8.
RELEASE = "8"
# Any fixed date makes the jar reproducible; zip knows none before 1980.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def version() -> str:
    """The distribution's version, which the jar's manifest carries."""
    found = re.search(r'^__version__ = "(.+)"$', (PACKAGE / "__init__.py").read_text(), re.MULTILINE)
    if not found:
        raise SystemExit("collector/joinsight/__init__.py has no __version__ line")
    return found.group(1)


def javac() -> str:
    """The compiler: of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=str(Path(home, "bin"))) if home else None
    found = found or shutil.which("javac")
    if not found:
        raise SystemExit(
            "joinsight: no javac: building the listener needs a JDK, 17 or later (Debian: apt-get install"
            " openjdk-17-jdk-headless), on PATH or named by JAVA_HOME"
        )
    return found


def spark_jars() -> Path:
    """The folder of Spark's jars in the installed PySpark."""
    spec = importlib.util.find_spec("pyspark")
    jars = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    if not jars or not jars.is_dir():
        raise SystemExit("joinsight: building the listener needs PySpark's jars: pip install pyspark==4.3.0")
    return jars


def build(jar: Path = JAR) -> Path:
    """Compile and pack the listener, unless `jar` is newer than all that it is made of."""
    sources = sorted(SOURCES.rglob("*.java"))
    inputs = [*sources, *RESOURCES, Path(__file__), PACKAGE / "__init__.py"]
    if jar.exists() and all(jar.stat().st_mtime > path.stat().st_mtime for path in inputs):
        return jar
    with tempfile.TemporaryDirectory() as folder:
        command = [javac(), "--release", RELEASE, "-g", "-encoding", "UTF-8", "-nowarn", "-Xlint:-options"]
        command += ["-proc:none", "-cp", f"{spark_jars()}/*", "-d", folder, *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"joinsight: javac failed\n{done.stdout}{done.stderr}")
        pack(Path(folder), jar)
    return jar


def pack(classes: Path, jar: Path) -> None:
    """Zip the class files in a fixed order with a fixed date."""
    lines = ("Manifest-Version: 1.0", "Implementation-Title: joinsight", f"Implementation-Version: {version()}")
    manifest = "".join(f"{line}\r\n" for line in (*lines, ""))
    jar.parent.mkdir(parents=True, exist_ok=True)
    half = jar.with_suffix(f".{os.getpid()}.tmp")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", TIMESTAMP), manifest)
        for path in sorted(classes.rglob("*.class")):
            info = zipfile.ZipInfo(path.relative_to(classes).as_posix(), TIMESTAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
        for path in RESOURCES:
            info = zipfile.ZipInfo(f"io/joinsight/{path.name}", TIMESTAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    half.replace(jar)


class JarBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """Puts the jar into the package before hatchling collects the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar; called by hatchling."""
        build()


if __name__ == "__main__":
    print(build(), file=sys.stdout)
