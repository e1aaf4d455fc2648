"""The tools of a conversation: what a model may have done at once, in the evaluator's open half."""
