"""What one element of a value is made of: scalar terms, and the indices at which they read."""
