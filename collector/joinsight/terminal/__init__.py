"""What a terminal shows: executions, plans, findings and tables as text that cannot control it."""
