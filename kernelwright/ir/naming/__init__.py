"""What people call things: idioms, the operands of a region, regions, a graph in text."""
