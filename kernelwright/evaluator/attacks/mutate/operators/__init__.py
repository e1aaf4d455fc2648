"""Mutation operators: kinds of mistakes that people and models make in kernels, by name."""
