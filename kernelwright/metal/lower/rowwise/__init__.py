"""Rows reduced and mapped: in registers, in threadgroup memory, in parts, across memory."""
