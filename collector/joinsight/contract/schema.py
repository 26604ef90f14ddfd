"""Prints the JSON Schema of the documents, generated from their classes: ``python -m joinsight.contract.schema``."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from joinsight.contract.document import SCHEMA_VERSION, Document


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a document, that is of one line of a request."""
    schema = msgspec.json.schema(Document)
    for definition in schema["$defs"].values():
        if "description" in definition:  # a docstring, which only Python 3.13 and later dedent
            definition["description"] = inspect.cleandoc(definition["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:joinsight:document:v{SCHEMA_VERSION}",
        "title": "Document",
        **schema,
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
