"""Runs a search: evaluators, their locks and retries, and control over a run."""
