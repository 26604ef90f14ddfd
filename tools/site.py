"""Hook of mkdocs: adds the pages of the root to those of docs/, and links other files to the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    **{
        name: name.lower()
        for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RUNBOOK.md", "SECURITY.md")
    },
}
"""Pages in the root, and their names on the site."""
_SOURCES = {page: name for name, page in PAGES.items()}
_LINK = re.compile(r"\]\((?!#|[a-z]+:)([^)#]+)(#[^)]*)?\)")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages of the root."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page with links for the site."""
    uri = page.file.src_uri
    source = _SOURCES.get(uri, f"docs/{uri}")

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if path in PAGES or (path.startswith("docs/") and not (ROOT / path).is_dir()):
            on_site = PAGES.get(path, path.removeprefix("docs/"))
            target = posixpath.relpath(on_site, posixpath.dirname(uri) or ".")
        else:
            target = f"{config.repo_url}/blob/main/{path}"
        return f"]({target}{match[2] or ''})"

    return _LINK.sub(link, markdown)
