"""The roles on language models: what they are told, and how their replies are read."""
