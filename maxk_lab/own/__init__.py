"""The user's own: an advantage function to check, numbers to measure, logs to audit."""
