"""The supervisor: a process per unit on this machine, and what becomes of those that fail."""
