"""Few rows times a matrix, every weight read once."""
