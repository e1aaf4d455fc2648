"""Attacks on the evaluator from outside: what it accepted, and proof that it should not have."""
