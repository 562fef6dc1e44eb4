"""One script for each engine that competes: puts jobs, works them off."""
