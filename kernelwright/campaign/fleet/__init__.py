"""Many machines for one campaign: jobs in PostgreSQL, workers that judge them, verdicts back."""
