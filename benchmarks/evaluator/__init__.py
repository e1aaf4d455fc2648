"""What proves the evaluator and what it costs: `python -m benchmarks.evaluator --help`."""
