"""What runs in the Python of the user's driver: attaches the listener, gives Spark the lines of the user's code."""
