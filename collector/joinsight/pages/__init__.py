"""The pages for a browser as text: a list of executions, and one execution with its plan drawn. No HTTP, no SQL."""
