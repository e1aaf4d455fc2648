"""How long the store takes to answer."""
