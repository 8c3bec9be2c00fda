"""The Ray backend: units as tasks of a Ray cluster, with or without files that all nodes see."""
