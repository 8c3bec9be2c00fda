"""Two runs compared: what is the same, better or worse, new or gone, and what was changed."""
