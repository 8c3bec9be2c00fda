"""The text of a sweep file and of `--set`: what may be written, before it is a tree of values."""
