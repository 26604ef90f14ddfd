"""Prints the JSON Schema of the documents, generated from their classes: ``python -m joinsight.schema``."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from joinsight.document import SCHEMA_VERSION, Document


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line of a request."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:joinsight:document:v{SCHEMA_VERSION}",
        "title": "Document",
        **msgspec.json.schema(Document),
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
