"""RL4CO's attention decoder in fewer operations, for nodes whose embeddings stay the same."""
