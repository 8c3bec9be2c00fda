"""One row of a gradient study: its content, its place in the order, and the rows it is compared with."""
