"""The report as one page for a browser: answers first, one table to ask, figures to look into."""
