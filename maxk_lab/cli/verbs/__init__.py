"""The verbs: one file each."""
