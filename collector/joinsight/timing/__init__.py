"""Where the time of an execution went: its critical path, the time of its tasks, and what each operator cost."""
