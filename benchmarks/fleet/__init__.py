"""What a fleet brings, what it survives, and what breaks first when it is large."""
