"""Reductions and normalisations that hand-written kernels compute."""
