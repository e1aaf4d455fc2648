"""What a model reads: prompts, graphs, programs, verdicts and worked examples as text."""
