"""Kernels cut where their threads wait, so that 32 lanes run as one loop."""
