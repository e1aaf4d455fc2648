"""Conversations with language models, behind one protocol."""
