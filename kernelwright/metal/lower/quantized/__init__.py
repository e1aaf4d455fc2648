"""Few rows times a quantized matrix."""
