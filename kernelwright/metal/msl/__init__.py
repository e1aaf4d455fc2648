"""Metal Shading Language as text: tokens, static rules, rewriting."""
