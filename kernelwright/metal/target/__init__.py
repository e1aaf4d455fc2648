"""The languages that kernels are printed in."""
