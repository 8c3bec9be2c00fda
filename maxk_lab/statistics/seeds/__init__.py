"""Values of seeds: intervals of their means, robust statistics, and a seed that ended apart."""
