"""The spec: a sweep file read, checked with all its problems at once, and made a frozen value."""
