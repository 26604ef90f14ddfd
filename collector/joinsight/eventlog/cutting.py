"""Long texts: what is left of one ends with a mark that says so. The listener's Cut.java does the same.

Texts are cut after redaction, and no key is made of a text that is cut: texts of plan nodes are kept whole.
"""

from __future__ import annotations

from joinsight.eventlog.redaction import MAX_TEXT


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """The text, or its beginning and the mark: at most `limit` characters in all."""
    if len(text) <= limit:
        return text
    mark = f"… [cut: {len(text):,} characters in all]"
    return text[: limit - len(mark)] + mark
