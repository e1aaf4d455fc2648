"""Metal: how types, operators and functions are spelled, and how tightly they bind."""
