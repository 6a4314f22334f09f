"""A fitted model as an ONNX file: the predictor's program, operation by operation."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp._system.files import write_whole
from manifoldgp.errors import InputError, MissingExtraError
from manifoldgp.predictor import Predictor, Program
from manifoldgp.predictor.onnx_graph import IR_VERSION, OPSET, Graph
from manifoldgp.predictor.operations import OPERATIONS

_LARGEST_FILE = 2**31 - 2**20
"""A single ONNX file cannot be larger."""


def export_onnx(model: Any, path: str | Path, *, dtype: str = "float64", latent: bool = False) -> None:
    """Write a fitted model to ``path`` as ONNX: input X (n, D) with any n, outputs mean and std, (n,) or (n, O), in the units of y.

    The file's metadata hold the columns' names, the number of targets, the package's version and, as JSON under "table", how a table with text and dates
    becomes X: ``TableEncoding.from_plain`` reads it.

    Parameters
    ----------
    model
        A fitted estimator, or a Predictor.
    dtype
        Of input, outputs and arithmetic; float32 is half as large, and loses the standard deviation's digits where the noise is small.
    latent
        Whether moments are those of f, without noise.
    """
    if dtype not in ("float64", "float32"):
        raise InputError(f"dtype must be 'float64' or 'float32'; got {dtype!r}.")
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("ONNX files need the package onnx: pip install 'manifoldgp[onnx]'.") from error
    predictor = model if isinstance(model, Predictor) else model.predictor()
    if predictor.nbytes * np.dtype(dtype).itemsize // 8 > _LARGEST_FILE:
        raise InputError(
            f"The model's constants take {predictor.nbytes / 2**30:.1f} GiB, and an ONNX file cannot exceed 2 GiB. "
            "Use dtype='float32', fewer members (averaging='single') or fewer rows; or Predictor.save."
        )
    proto = _proto(predictor, np.dtype(dtype), latent)
    onnx.checker.check_model(proto, full_check=True)
    write_whole(path, proto.SerializeToString())


def _proto(predictor: Predictor, dtype: np.dtype, latent: bool) -> Any:
    graph = Graph(dtype)
    helper = graph.onnx.helper
    prefix = "latent_" if latent else ""
    names = _translate(predictor.program, graph, {"mean": f"{prefix}mean", "std": f"{prefix}std"})
    outputs = [helper.make_node("Identity", [names[name]], [name]) for name in ("mean", "std")]
    shape = ["n"] if predictor.flat else ["n", predictor.n_outputs]
    value = helper.make_tensor_value_info
    proto = helper.make_model(
        helper.make_graph(
            graph.nodes + outputs,
            "manifoldgp",
            [value("X", graph.tensor_type, ["n", predictor.n_features])],
            [value(name, graph.tensor_type, shape) for name in ("mean", "std")],
            graph.constants_of(graph.nodes + outputs),
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="manifoldgp",
        producer_version=version("manifoldgp"),
    )
    helper.set_model_props(proto, {
        "columns": json.dumps(list(predictor.feature_names)), "targets": str(predictor.n_outputs),
        "latent": json.dumps(latent), "manifoldgp": version("manifoldgp"), "table": json.dumps(predictor.table),
    })  # fmt: skip
    return proto


def _translate(program: Program, graph: Graph, wanted: dict[str, str]) -> dict[str, str]:
    """Add the program's nodes to the graph; returns the tensors of the wanted outputs."""
    instructions = program.needed(list(wanted.values()))
    used = {slot for instruction in instructions for slot in instruction.inputs}
    tensors = {0: "X", **{slot: graph.constant(array) for slot, array in program.constants.items() if slot in used}}
    for instruction in instructions:
        inputs = [tensors[slot] for slot in instruction.inputs]
        tensors[instruction.output] = graph.do(OPERATIONS[instruction.operation], *inputs, **instruction.settings)
    return {name: tensors[program.outputs[output]] for name, output in wanted.items()}
