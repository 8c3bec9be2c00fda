"""Files of problem instances."""
