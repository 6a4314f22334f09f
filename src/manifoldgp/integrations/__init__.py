"""Bridges to other packages, each an optional extra: ONNX (`[onnx]`), BoTorch (`[botorch]`), GPyTorch's kernels (`[gpytorch]`)."""
