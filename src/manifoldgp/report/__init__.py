"""Reports that a person reads."""
