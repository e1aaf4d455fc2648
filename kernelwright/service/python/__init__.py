"""The Python face: plan, search, best, verify and campaign for scripts and notebooks."""
