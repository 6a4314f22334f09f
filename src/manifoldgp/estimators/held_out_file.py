"""What held-out rows said about a stack, to named tensors and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manifoldgp._system.tensor_file import LOGARITHM, NOT_NEGATIVE, PROBABILITY, take
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.errors import FileFormatError
from manifoldgp.predictor.operations_mixtures import MOST_CERTAIN


def pack_report(report: HeldOutReport | None, name: str, tensors: dict[str, Tensor]) -> Any:
    """Put the numbers of a report into ``tensors``, under names that begin with ``name``; returns the rest, as plain data."""
    if report is None:
        return None
    tensors[f"{name}.weights"], tensors[f"{name}.pit"] = torch.from_numpy(report.weights), torch.from_numpy(report.pit)
    for key, value in report.log_density.items():
        tensors[f"{name}.log_density.{key}"] = torch.from_numpy(value)
    if report.together is not None:
        tensors[f"{name}.together"] = torch.from_numpy(report.together)
    if report.mean is not None and report.observed is not None:
        tensors[f"{name}.mean"], tensors[f"{name}.observed"] = torch.from_numpy(report.mean), torch.from_numpy(report.observed)
    return {
        "means": report.mean is not None and report.observed is not None,
        "cut_short": list(report.cut_short),
        "left_out": list(report.left_out),
        "ordered": report.ordered,
        "together": report.together is not None,
        "following": [report.exponent, report.following],
        "groups": list(report.groups),
        "variance_factors": list(report.variance_factors),
        "densities": list(report.log_density),
    }


def unpack_report(plain: Any, name: str, tensors: dict[str, Tensor]) -> HeldOutReport | None:
    """The report of a file, every tensor checked."""
    if plain is None:
        return None
    pit = take(tensors, f"{name}.pit", (-1,), domain=PROBABILITY).cpu().numpy()
    shape = len(plain["groups"]), len(plain["variance_factors"])
    weights = take(tensors, f"{name}.weights", shape, domain=NOT_NEGATIVE).cpu().numpy()
    log_density = {
        key: take(tensors, f"{name}.log_density.{key}", (len(pit),), domain=LOGARITHM).cpu().numpy() for key in plain["densities"]
    }
    means = [
        take(tensors, f"{name}.{part}", (len(pit),)).cpu().numpy() if plain["means"] else None for part in ("mean", "observed")
    ]
    groups, factors, cut_short = (tuple(plain[part]) for part in ("groups", "variance_factors", "cut_short"))
    ordered, left_out = plain.get("ordered", False) is True, tuple(plain.get("left_out", ()))  # earlier files do not say
    together = None
    if plain.get("together", False) is True:
        together = take(tensors, f"{name}.together", (len(pit),), torch.int64, NOT_NEGATIVE).cpu().numpy()
    exponent, following = map(float, plain.get("following", (0.0, 0.0)))
    if not (0.0 <= exponent <= MOST_CERTAIN and 0.0 <= following <= 1.0):
        raise FileFormatError(
            f"Weights should follow a power of variances from 0 to {MOST_CERTAIN:g} in a share from 0 to 1; the file says {exponent} and {following}."
        )
    return HeldOutReport(
        groups,
        factors,
        weights,
        log_density,
        pit,
        means[0],
        means[1],
        cut_short,
        ordered,
        together,
        exponent,
        following,
        left_out,
    )
