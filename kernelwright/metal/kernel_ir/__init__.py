"""What one element of a kernel is computed from, and where it stands, apart from any language."""
