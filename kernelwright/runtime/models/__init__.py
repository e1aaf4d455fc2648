"""Whole models in place: modules traced around their caches, kernels where there are champions."""
