"""One row of a gradient study: its content, its place, and the rows it is compared with."""
