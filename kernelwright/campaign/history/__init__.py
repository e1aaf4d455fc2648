"""What a campaign leaves in the store, and what a later run reads from it."""
