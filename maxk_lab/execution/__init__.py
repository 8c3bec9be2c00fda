"""Execution: worker processes measure the missing cells of a plan; records are files."""
