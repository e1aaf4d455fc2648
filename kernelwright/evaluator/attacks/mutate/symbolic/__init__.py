"""Runs a threadgroup on numbers that are unknown, so that what holds holds for all of them."""
