"""What listener and collector agree on: the execution document, its schema, and how it is decoded."""
