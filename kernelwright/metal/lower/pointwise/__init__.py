"""Every thread makes a few elements: maps, broadcasts, views, stencils and windows."""
