"""What a fitted model looks like, in words and numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from manifoldgp.ensemble import Ensemble
from manifoldgp.parameters import leaves
from manifoldgp.scaling import constant_columns

_AGREE = 0.01
_FAR = 1e3
_NEAR = 1e-3


@dataclass(frozen=True)
class Diagnosis:
    """numbers: plain values by name, for machines. remarks: sentences. print(diagnosis) shows both."""

    numbers: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        width = max((len(name) for name in self.numbers), default=0)
        lines = [f"{name:<{width}}  {_show(value)}" for name, value in self.numbers.items()]
        return "\n".join([*lines, "", *(f"- {remark}" for remark in self.remarks)]).strip()


def diagnose(estimator: Any) -> Diagnosis:
    """Jitter, noise floor, length-scales, features, leave-one-out density and agreement of the starts of a fitted estimator."""
    parts = [
        _diagnose_output(estimator, ensemble, estimator.starts_[estimator.starts_["output"] == o])
        for o, ensemble in enumerate(estimator.ensembles_)
    ]
    if len(parts) == 1:
        return parts[0]
    numbers = {f"output {o}: {name}": value for o, part in enumerate(parts) for name, value in part.numbers.items()}
    return Diagnosis(numbers, [f"output {o}: {remark}" for o, part in enumerate(parts) for remark in part.remarks])


def _diagnose_output(estimator: Any, ensemble: Ensemble, starts: np.ndarray) -> Diagnosis:
    block, member = ensemble.heaviest()
    posterior = block.only(torch.tensor([member]))
    N = posterior.alpha.shape[1]
    numbers: dict[str, Any] = {"rows": N, "inputs": posterior.data.X.shape[1], "features": posterior.H.shape[-1]}
    remarks: list[str] = []
    _evidence(ensemble, posterior, starts, N, numbers, remarks)
    _numerics(posterior, ensemble, numbers, remarks)
    _lengthscales(posterior, numbers, remarks)
    _feature_space(posterior, numbers, remarks)
    _starts(starts, N, numbers, remarks)
    constant = constant_columns(posterior.data.X.cpu().numpy())
    if len(constant):
        remarks.append(f"Inputs {constant.tolist()} are constant in the training data and carry no information.")
    return Diagnosis(numbers, remarks or ["Nothing unusual."])


def _evidence(ensemble: Ensemble, posterior: Any, starts: np.ndarray, N: int, numbers: dict, remarks: list) -> None:
    loo = posterior.leave_one_out()
    _, log_slope = posterior.model.warping.forward(posterior.values.get("warping", {}), posterior.data.y)
    density = float((loo.log_density + log_slope).mean()) - math.log(ensemble.scale)
    nlml = float(starts["nlml"][starts["chosen"]][0]) / N if starts["chosen"].any() else math.nan
    numbers["NLML per row"] = nlml
    numbers["leave-one-out negative log density per row"] = -density
    if -density > nlml + 0.5:
        remarks.append(
            f"The leave-one-out density ({-density:.2f} nats a row) is {-density - nlml:.2f} worse than the NLML ({nlml:.2f}): "
            "a sign of overfitting. Check on held-out data against GPRegressor."
        )


def _numerics(posterior: Any, ensemble: Ensemble, numbers: dict, remarks: list) -> None:
    jitter, floor = float(posterior.jitter[0]), posterior.model.noise.floor
    noise = float(posterior.noise_variance()[0]) ** 0.5
    numbers["jitter used (variance, relative to sd(y)²)"] = jitter
    numbers["noise standard deviation (units of y)"] = noise * ensemble.scale
    numbers["noise floor (units of y)"] = floor * ensemble.scale
    if jitter > 0:
        remarks.append(f"The covariance needed a jitter of {jitter:.1e}: nearly duplicate rows, or length-scales far above the data.")
    if posterior.model.noise.learned and noise < 1.5 * floor:
        remarks.append("The noise is at its floor: the data look noise-free. Lower noise_floor if they are.")


def _lengthscales(posterior: Any, numbers: dict, remarks: list) -> None:
    spread = posterior.H[0].std(0).clamp_min(1e-300)
    for name, leaf in leaves(posterior.values.get("kernel", {}), "kernel"):
        if not name.endswith("lengthscale") or leaf.shape[-1] not in (1, len(spread)):
            continue
        relative = leaf[0] / (spread if leaf.shape[-1] == len(spread) else spread.mean())
        numbers[f"{name} / spread of the feature"] = relative.cpu().numpy()
        if bool((relative > _FAR).any()):
            remarks.append(f"{name}: {int((relative > _FAR).sum())} features have no influence (length-scale above {_FAR:g} spreads).")
        if bool((relative < _NEAR).any()):
            remarks.append(f"{name}: {int((relative < _NEAR).sum())} length-scales are below {_NEAR:g} spreads: nothing is shared between rows.")


def _feature_space(posterior: Any, numbers: dict, remarks: list) -> None:
    H = posterior.H[0]
    singular = torch.linalg.svdvals(H - H.mean(0))
    rank = int((singular > 1e-8 * singular.max().clamp_min(1e-300)).sum())
    numbers["spread of the features"] = H.std(0).cpu().numpy()
    numbers["rank of the features"] = rank
    if rank < H.shape[1]:
        remarks.append(f"The {H.shape[1]} features span only {rank} dimensions: a smaller network would do.")


def _starts(starts: np.ndarray, N: int, numbers: dict, remarks: list) -> None:
    usable = starts[np.isfinite(starts["objective"])]
    best = usable["objective"].min() if len(usable) else math.nan
    agree = int((usable["objective"] <= best + _AGREE * N).sum())
    numbers["starts"] = len(starts)
    numbers["starts that agree on the optimum (0.01 nats a row)"] = agree
    invalid = int((starts["status"] == "invalid start").sum())
    numbers["invalid starts"] = invalid
    if invalid:
        remarks.append(f"{invalid} of {len(starts)} starts were not finite or not positive definite and were left out.")
    if len(starts) > 1 and agree == 1:
        remarks.append("Only one start found the best optimum: more restarts may find a better one.")
    limited = int((starts["status"] == "iteration limit").sum())
    if limited:
        remarks.append(f"{limited} of {len(starts)} starts stopped at the iteration limit: raise max_iter to see them converge.")


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "[" + ", ".join(f"{v:.3g}" for v in value.ravel()[:12]) + (", ..." if value.size > 12 else "") + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
