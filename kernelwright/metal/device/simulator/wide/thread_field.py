"""Where `kw_thread` of abi.h holds what the cut of a kernel depends on; see ../layout.py."""

OFFSETS = {
    "position_in_grid": 0,
    "position_in_threadgroup": 12,
    "index_in_threadgroup": 96,
    "lane": 100,
    "simdgroup": 104,
    "active_lanes": 116,
}
"""Bytes from its beginning; the first two have three components of four bytes."""
