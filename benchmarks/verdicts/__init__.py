"""The same programs before two devices: every verdict must be the same."""
