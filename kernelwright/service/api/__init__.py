"""The read API under `/api/v1`: the store's records as JSON, for the page and other programs."""
