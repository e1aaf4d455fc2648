"""Mutation testing of the evaluator: kernels broken by operators, each of which must be refused."""
