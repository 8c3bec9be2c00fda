"""A YAML sweep file becomes a validated sweep: all problems at once, each with its place."""
