"""The confined process that runs candidates."""
