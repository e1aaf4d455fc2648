"""Regions and schedules to programs, one file a family."""
