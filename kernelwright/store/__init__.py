"""What is remembered: candidates, evaluations, samples, prompts, replies, costs."""
