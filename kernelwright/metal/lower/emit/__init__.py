"""Lines of Metal: terms, runs of neighbours, reductions among lanes, matrices of simdgroups."""
