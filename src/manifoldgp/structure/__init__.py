"""What structure data have: a search over sums and products of kernels, and what was found, as parts and in words."""
