"""Where programs compile and run: the simulator, Apple GPUs, NVIDIA GPUs."""
