"""What a module's code does besides computing, found in its text: nothing of it is run."""
