"""What dispatch at run time costs."""
