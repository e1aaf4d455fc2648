"""The page: HTML, style and scripts as they are sent, with no build step and no other host."""
