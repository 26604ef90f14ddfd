"""Writes the JSON of all dashboards to `grafana/`."""

from __future__ import annotations

from pathlib import Path

from dashboards.everything import rendered

FOLDER = Path(__file__).parent / "grafana"


def main() -> None:
    """Write changed files; remove files without a dashboard."""
    FOLDER.mkdir(exist_ok=True)
    pages = rendered()
    for file in FOLDER.glob("*.json"):
        if file.name not in pages:
            file.unlink()
    for name, page in pages.items():
        (FOLDER / name).write_text(page)


if __name__ == "__main__":
    main()
