"""What a campaign found, as records, pages and plots."""
