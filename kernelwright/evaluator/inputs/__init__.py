"""What programs are judged on: cases, their values and their shapes."""
