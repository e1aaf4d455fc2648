"""Attention of few queries (decode): simdgroups walk along keys and merge what each found."""
