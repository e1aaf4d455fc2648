"""What follows from a graph without running it."""
