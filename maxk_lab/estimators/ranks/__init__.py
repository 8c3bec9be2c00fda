"""Ranks: sorted rewards, their gaps, and the rules on the gaps that give every closed form."""
