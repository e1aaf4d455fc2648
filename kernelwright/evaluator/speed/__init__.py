"""How fast a program is: measured beside baselines, or predicted."""
