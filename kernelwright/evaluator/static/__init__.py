"""What a text and its launch must keep to before anything is compiled."""
