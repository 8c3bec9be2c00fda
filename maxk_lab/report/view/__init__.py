"""View: the part of a report that is asked for, as rows, their order and their columns."""
