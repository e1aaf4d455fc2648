"""How fast the simulator compiles and runs, against NumPy in the same process."""
