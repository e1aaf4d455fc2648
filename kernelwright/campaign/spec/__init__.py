"""A campaign as its user writes it: files, functions, inputs and settings."""
