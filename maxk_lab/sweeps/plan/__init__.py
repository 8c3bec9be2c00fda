"""The plan: which cells a sweep has, which of them share their samples, and what each is called."""
