"""What a program did wrong, in words that help to mend it."""
