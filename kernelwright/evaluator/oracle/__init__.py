"""What is right, and how closely a program must meet it."""
