"""Lets `python -m kernelwright` do what the console script does."""

from kernelwright.service.cli import main

main()
