"""Patterns over graphs, and the recognisers that naming, rewriting and planning share."""
