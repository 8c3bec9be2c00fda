"""The worker processes of this machine: what each does, and how its parent ends it."""
