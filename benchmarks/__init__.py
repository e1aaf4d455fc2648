"""Figures that the documents quote, each with the command that gives it."""
