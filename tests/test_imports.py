"""The layers import in one direction, as ARCHITECTURE.md defines."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import joinsight

PACKAGE = Path(joinsight.__file__).parent
# From the bottom up; a module may import its own layer and those before it.
LAYERS = (
    (
        "errors",
        "files",
        "document",
        "gc_tuning",
        "units",
        "incomplete",
        "timeparse",
        "manual",
        "generated",
        "call_sites",
        "micro_batch",
    ),
    ("schema", "plan", "decode", "display", "search", "severity", "called_from"),
    ("tables",),
    ("title",),
    ("rows", "bill"),
    ("comparison", "findings", "golden"),
    ("store",),
    ("filters", "reading", "trends", "attach", "grafana"),
    ("probe",),
    ("verdict",),
    ("present",),
    ("terminal",),
    ("pages",),
    ("serve", "spark"),
    ("backfill",),
    ("demo", "gate"),
    ("measurement",),
    ("variants", "cell_magic", "budgets"),
    ("checking", "pytest_plugin"),
    ("cli",),
)
LAYER = {module: number for number, modules in enumerate(LAYERS) for module in modules}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    """No module imports from a layer above its own."""
    own = LAYER[path.relative_to(PACKAGE).parts[0].removesuffix(".py")]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "joinsight" and len(parts) > 1 and parts[1] in LAYER:
                assert LAYER[parts[1]] <= own, f"{path.relative_to(PACKAGE)} imports {name}"
