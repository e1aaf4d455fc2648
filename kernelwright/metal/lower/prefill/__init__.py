"""Attention of many queries: tiles on simdgroup matrices."""
