"""The doors: command line, API and pages. They parse, call and show, and hold no logic."""
