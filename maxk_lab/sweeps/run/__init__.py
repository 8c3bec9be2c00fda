"""The run: missing cells measured in worker processes, and their records on disk."""
