"""The search loop: what to try next, under which budget, and what it leaves behind."""
