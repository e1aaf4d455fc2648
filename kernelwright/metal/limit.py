"""What Metal allows on every chip."""

MAXIMUM_BUFFERS = 31
"""Buffers that one Metal function can take:
https://developer.apple.com/metal/Metal-Feature-Set-Tables.pdf."""
