"""What surrounds a kernel's text: names of its arrays, sizes that stay open, parts side by side."""
