"""The missing cells of a plan are measured in worker processes, their records kept on disk."""
