"""How results look on a terminal: tables, pages and live progress; no decisions."""
