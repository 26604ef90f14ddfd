"""Compiles the listener with ``javac`` against the jars of the installed PySpark, and packs a reproducible jar.

Runs as hatchling's build hook (wheel and editable install) and as a script: ``python listener/build_hook.py``. With
``--check`` it compiles all Java of the repository with the warnings of ``javac`` as errors instead, and keeps nothing.
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
CLUSTERS = ROOT / "tests" / "cluster"
SOURCES = ROOT / "listener" / "src"
PACKAGE = ROOT / "collector" / "joinsight"
JAR = PACKAGE / "jars" / "joinsight-listener.jar"
# By the package of the class that reads them; the collector reads the first one, too
RESOURCES = {"capture": PACKAGE / "contract" / "incomplete.json", "redaction": ROOT / "listener" / "redaction.json"}
# Spark 3.4 and 3.5 still run on Java 8.
RELEASE = "8"
# All warnings except those caused by RELEASE and by the class paths in manifests of Spark's jars.
LINT = "-Xlint:all,-options,-path"
# Any fixed date makes the jar reproducible; zip supports none before 1980.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def version() -> str:
    """The distribution's version, for the jar's manifest."""
    found = re.search(r'^__version__ = "(.+)"$', (PACKAGE / "__init__.py").read_text(), re.MULTILINE)
    if not found:
        raise SystemExit("collector/joinsight/__init__.py has no __version__ line")
    return found.group(1)


def javac() -> str:
    """The path of the compiler: from JAVA_HOME, else from PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=str(Path(home, "bin"))) if home else None
    found = found or shutil.which("javac")
    if not found:
        raise SystemExit(
            "joinsight: javac not found: building the listener needs a JDK, 17 or later (Debian: apt-get install"
            " openjdk-17-jdk-headless), on PATH or named by JAVA_HOME"
        )
    return found


def spark_jars() -> Path:
    """The folder of Spark's jars in the installed PySpark."""
    spec = importlib.util.find_spec("pyspark")
    jars = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    if not jars or not jars.is_dir():
        raise SystemExit("joinsight: building the listener needs PySpark's jars: pip install pyspark")
    return jars


def build(jar: Path = JAR) -> Path:
    """Compile and pack the listener, unless `jar` is newer than all its inputs."""
    sources = sorted(SOURCES.rglob("*.java"))
    inputs = [*sources, *RESOURCES.values(), Path(__file__), PACKAGE / "__init__.py"]
    if jar.exists() and all(jar.stat().st_mtime > path.stat().st_mtime for path in inputs):
        return jar
    with tempfile.TemporaryDirectory() as folder:
        compile_java(sources, folder, "--release", RELEASE, "-nowarn", "-Xlint:-options")
        pack(Path(folder), jar)
    return jar


def check() -> None:
    """Compile the listener, then the Java of tests, benchmarks and tools against it; a warning is an error.

    Programs of real clusters need classes that Spark has not: their tests compile them.
    """
    with tempfile.TemporaryDirectory() as folder:
        compile_java(sorted(SOURCES.rglob("*.java")), folder, "--release", RELEASE, LINT, "-Werror")
        others = [path for name in ("tests", "bench", "tools") for path in sorted((ROOT / name).rglob("*.java"))]
        others = [path for path in others if CLUSTERS not in path.parents]
        compile_java(others, folder, "--release", "17", LINT, "-Werror")  # the oldest JDK that builds this


def compile_java(sources: list[Path], classes: str, *options: str) -> None:
    """Compile into the folder `classes`, against the classes in it and Spark's jars."""
    command = [javac(), "-g", "-encoding", "UTF-8", "-proc:none", "-cp", f"{classes}{os.pathsep}{spark_jars()}/*"]
    command += ["-d", classes, *options, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"joinsight: javac failed\n{done.stdout}{done.stderr}")


def pack(classes: Path, jar: Path) -> None:
    """Zip the class files in a fixed order with a fixed date."""
    lines = ("Manifest-Version: 1.0", "Implementation-Title: joinsight", f"Implementation-Version: {version()}")
    manifest = "".join(f"{line}\r\n" for line in (*lines, ""))
    jar.parent.mkdir(parents=True, exist_ok=True)
    unfinished = jar.with_suffix(f".{os.getpid()}.tmp")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", TIMESTAMP), manifest)
        for path in sorted(classes.rglob("*.class")):
            info = zipfile.ZipInfo(path.relative_to(classes).as_posix(), TIMESTAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
        for package, path in RESOURCES.items():
            info = zipfile.ZipInfo(f"io/joinsight/{package}/{path.name}", TIMESTAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    unfinished.replace(jar)


class JarBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """Puts the jar into the package before hatchling collects the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar; called by hatchling."""
        build()


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    else:
        print(build(), file=sys.stdout)
