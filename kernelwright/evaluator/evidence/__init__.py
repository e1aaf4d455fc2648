"""What a machine says of the same programs: verdicts beside the simulator's, and times."""
