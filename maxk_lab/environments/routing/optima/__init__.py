"""The best reward of a routing problem: proved where possible, else the best a solver finds."""
