"""One row of a training study: its content, its names, and the row it is compared with."""
