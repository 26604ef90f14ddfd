"""The questions to the database: lists with their filters, single executions, changes over time."""
