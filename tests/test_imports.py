"""The folders of the package import in one direction, and no modules import each other."""

from __future__ import annotations

import ast
import graphlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

import joinsight

PACKAGE = Path(joinsight.__file__).parent
# From the bottom up: a folder imports only from those before it.
FOLDERS = (
    "base",
    "contract",
    "driver",
    "plan",
    "timing",
    "tables",
    "analysis",
    "verdict",
    "findings",
    "store",
    "queries",
    "present",
    "why",
    "alarms",
    "terminal",
    "pages",
    "gate",
    "measuring",
    "grafana",
    "spark",
    "serve",
    "backfill",
    "demo",
    "cli",
)
ENTRY_POINTS = {"__init__.py", "pytest_plugin.py"}
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.glob("*/**/*.py"))
}


def imported(path: Path) -> Iterator[str]:
    """What a module imports, also in functions and for types, without ``joinsight.``."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, name = name.partition(".")
            if package == "joinsight" and name not in ("", "__version__"):
                yield name if name in MODULES else name.rpartition(".")[0] or name


def test_the_root_has_entry_points_only() -> None:
    """Each module is in a folder, and the order of all folders is given."""
    assert {path.name for path in PACKAGE.glob("*.py")} == ENTRY_POINTS
    assert {name.partition(".")[0] for name in MODULES} == set(FOLDERS)


@pytest.mark.parametrize("name", MODULES)
def test_folders_import_downwards(name: str) -> None:
    """A module imports from its own folder and those below it, and from the root its version only."""
    below = FOLDERS[: FOLDERS.index(name.partition(".")[0]) + 1]
    for each in imported(MODULES[name]):
        assert each.partition(".")[0] in below, f"{name} imports {each}"


def test_no_modules_import_each_other() -> None:
    """Neither directly nor in a circle, also not in functions or for types."""
    graph = {name: set(imported(path)) - {name} for name, path in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_no_folder_hides_a_public_function() -> None:
    """A folder with its name would replace it once it is imported."""
    for name in MODULES:
        if not name.endswith("__main__"):
            importlib.import_module(f"joinsight.{name}")
    for name in ("attach", "compare", "history", "listener_jar", "measure"):
        assert isinstance(getattr(joinsight, name), FunctionType)
