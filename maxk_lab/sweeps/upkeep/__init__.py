"""Looking after runs: what lies in the folder of results, and what of it may go."""
