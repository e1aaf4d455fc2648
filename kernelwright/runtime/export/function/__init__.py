"""Exports whole functions: the user's own code, with kernels where they serve a call."""
