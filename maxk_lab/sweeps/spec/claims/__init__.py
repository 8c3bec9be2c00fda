"""Claims: the falsifiable statements of a sweep file."""
