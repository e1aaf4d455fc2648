"""Where the values of a graph come from in the user's source, and what regions are called by."""
