"""Who judges a job: an evaluator in this process, or one in a process of its own."""
