"""What the command line exits with; 0 is for what was found or done."""

FAILED = 1
"""Nothing was found, a kernel did not pass, or something failed."""
MISUSED = 2
"""The command line itself says nothing sensible."""
INTERRUPTED = 130
"""Ctrl-C."""
UNREAD = 141
"""Whoever read the output, such as `head`, has seen enough."""
