"""hatchling's metadata hook: makes the README for PyPI, where links into the repository must be absolute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!#|[a-z]+:)([^)]+)\)")


def for_pypi(readme: str, version: str) -> str:
    """The README with absolute links to the files and pictures of this version."""

    def link(match: re.Match[str]) -> str:
        host = "raw.githubusercontent.com/joinsight/joinsight" if match[1] else "github.com/joinsight/joinsight/blob"
        return f"{match[1]}{match[2]}(https://{host}/v{version}/{match[3]})"

    return _LINK.sub(link, readme)


class Readme(MetadataHookInterface):
    """Sets `readme`, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README for the version in `metadata`."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = for_pypi(readme, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
