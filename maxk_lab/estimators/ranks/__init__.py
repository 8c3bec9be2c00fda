"""Ranks: sorted rewards, their gaps, and the rules on the gaps that every closed form is made of."""
