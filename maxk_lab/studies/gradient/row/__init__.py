"""One row of a gradient study: its content, its place, the rows it is compared with."""
