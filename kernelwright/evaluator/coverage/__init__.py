"""Whether the cases take both sides of every condition on loaded data, and what it matters."""
