"""The collector's service: receives documents over HTTP, stores them, exports metrics."""
