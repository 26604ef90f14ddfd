"""What dbt's query comment tells about a statement: dbt writes JSON in front of each one that it runs, or after it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_COMMENT = re.compile(r'/\*\s{0,9}(\{"app": "dbt"[^}]{0,2000}\})\s{0,9}\*/')
_TAGS = {"node_id": "dbt_node", "profile_name": "dbt_profile", "target_name": "dbt_target"}
_MOST_CHARACTERS = 200


def dbt_tags(*texts: str) -> Mapping[str, str]:
    """The tags ``dbt_node``, ``dbt_profile`` and ``dbt_target`` by the first of these texts with such a comment."""
    for text in texts:
        found = _COMMENT.search(text)
        if found is None:
            continue
        try:
            said = json.loads(found[1])
        except ValueError:  # the listener has masked a part of it
            continue
        given = {tag: said.get(name) for name, tag in _TAGS.items()}
        return {tag: value[:_MOST_CHARACTERS] for tag, value in given.items() if isinstance(value, str) and value}
    return {}
