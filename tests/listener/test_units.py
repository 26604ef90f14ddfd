"""The packed slots of the listener, compared with a plain array."""

from __future__ import annotations

import subprocess
from pathlib import Path

from joinsight.attach import listener_jar


def test_packed_slots_hold_any_long(tmp_path: Path) -> None:
    """Whatever is written in whatever order is read back, copies are independent, and small values take little."""
    source = Path(__file__).with_name("PackedTest.java")
    subprocess.run(["javac", "-cp", str(listener_jar()), "-d", str(tmp_path), str(source)], check=True)
    run = ["java", "-cp", f"{listener_jar()}:{tmp_path}", "io.joinsight.PackedTest"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n")
