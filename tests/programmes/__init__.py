"""Programmes that look for failures for as long as one lets them: `make fuzz`, `make faults`, `make soak`, `make calibrate`."""
