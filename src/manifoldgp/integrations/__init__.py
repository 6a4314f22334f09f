"""Bridges to other libraries, each an optional extra: BoTorch (`[botorch]`) and GPyTorch's kernels. Nothing inside imports them."""
