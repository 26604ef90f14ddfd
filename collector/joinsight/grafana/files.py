"""The dashboards and provisioning files in this package, and how they are laid out for Grafana."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joinsight
from joinsight.base.errors import ConfigurationError

PROVIDER = Path("provisioning", "dashboards", "joinsight.yml")
SOURCES = Path("provisioning", "datasources", "joinsight.yml")
IN_CONTAINER = "/etc/joinsight/grafana"
"""The folder of dashboards in Grafana's container, as in the provider's file."""


def folder() -> Path:
    """The folder with dashboards: in the package of a wheel, at the top of a checkout."""
    package = Path(joinsight.__file__).resolve().parent
    inside = package / "dashboards"
    return inside if inside.is_dir() else package.parent.parent / "dashboards"


def dashboards(source: Path) -> list[dict[str, Any]]:
    """The dashboards in `source`, by name."""
    return [json.loads(file.read_text()) for file in sorted((source / "grafana").glob("joinsight-*.json"))]


def export(source: Path, target: Path, seen_at: str) -> list[tuple[str, str]]:
    """Write all files into `target`; returns relative paths, and what was done (written, unchanged, kept, removed).

    Data sources are written once, because users change them. Dashboards that no longer exist are removed, because
    Grafana would still show them. `seen_at` is where Grafana finds the folder with the dashboards. Raises
    `ConfigurationError` if the folder is not writable.
    """
    pages = {Path("grafana", file.name): file.read_text() for file in (source / "grafana").glob("joinsight-*.json")}
    provider = (source / PROVIDER).read_text().replace(json.dumps(IN_CONTAINER), json.dumps(seen_at))
    texts = {**pages, PROVIDER: provider, SOURCES: (source / SOURCES).read_text()}
    try:
        return [*_write_changed(target, texts), *_remove_obsolete(target, pages)]
    except OSError as error:
        raise ConfigurationError("DIR", str(target), str(error), "Name a folder of your own.") from None


def _write_changed(target: Path, texts: dict[Path, str]) -> Iterator[tuple[str, str]]:
    for name, text in sorted(texts.items()):
        path = target / name
        present = path.read_text() if path.is_file() else None
        if present == text:
            yield f"{name}", "unchanged"
        elif present is not None and name == SOURCES:
            yield f"{name}", "kept"
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            yield f"{name}", "written"


def _remove_obsolete(target: Path, pages: dict[Path, str]) -> Iterator[tuple[str, str]]:
    for path in sorted((target / "grafana").glob("joinsight-*.json")):
        name = path.relative_to(target)
        if name not in pages:
            path.unlink()
            yield f"{name}", "removed"
