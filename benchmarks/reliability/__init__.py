"""What campaigns survive: kills at random instants, and faults of everything around them."""
