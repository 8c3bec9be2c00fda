"""The verbs that look after runs: the table of them, and those that remove, rename and prune."""
