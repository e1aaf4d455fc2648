"""How fast a search learns: its policies on recorded tasks, without a device."""
