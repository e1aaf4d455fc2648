"""Known-bad and known-good candidates that prove the evaluator."""
