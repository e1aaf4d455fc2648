"""Which conditions on loaded data a kernel has, and which sides of them a launch takes."""
