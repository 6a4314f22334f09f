"""ONNX (extra [onnx]): a fitted model as a graph that any ONNX runtime evaluates, in C++ as in Python."""

from manifoldgp.integrations.onnx.export import export_onnx

__all__ = ["export_onnx"]
