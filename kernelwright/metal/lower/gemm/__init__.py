"""Many rows times a matrix, tiles on simdgroup matrices."""
