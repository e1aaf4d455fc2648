"""The stages of a verdict, and the trial that a program stands in them."""
