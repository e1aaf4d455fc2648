"""Writes to the store; each function is one transaction's work."""
