"""Studies: one folder per kind of study, each with the same file names; the frame loads them by name when they are used."""
