"""What a posterior says about its own fit: the evidence, what predicts a row that is left out, and whether noise and rounding can be trusted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp._system.linalg import PIVOT_ERROR, pivot_error
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.features import Identity
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.local_posterior import LocalPosterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.inference.sparse_sums import JITTER_LADDER
from manifoldgp.parameters import leaves
from manifoldgp.training.settings import Sparse, as_method

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_LEFT_OUT = 1000


def model_size(posterior: Conditioned, compared: bool) -> Diagnosis:
    """How many parameters were trained, and whether that is too many for the rows. compared: whether held-out rows or an average have kept a single network from overfitting."""
    # Neither the NLML nor leave-one-out densities show it when a single network overfits: both are computed at parameters that saw all rows.
    learnt = [p.shape for _, p in leaves(posterior.model.features.parameters(posterior.data.X)) if p.trainable]
    learnt += [leaf.shape[1:] for part, tree in posterior.values.items() if part != "features" for _, leaf in leaves(tree)]
    count = sum(math.prod(shape) for shape in learnt)
    found = Diagnosis({"trained parameters": count})
    placed = sum(
        math.prod(leaf.shape[1:]) for _, leaf in leaves(posterior.values.get("inducing", {}))
    )  # of a bound: they fit nothing
    if count - placed > posterior.rows and not compared:
        others = "" if isinstance(posterior.model.features, Identity) else " against GPRegressor, or use averaging='stack'"
        found.remarks.append(
            f"There are more trained parameters ({count}) than rows ({posterior.rows}): a single model is likely to overfit, and its NLML does not show it. "
            f"Check on held-out data{others}."
        )
    return found


def evidence(ensemble: Ensemble, posterior: Conditioned, estimator: ManifoldGPRegressor) -> Diagnosis:
    """The evidence of the rows, or a bound on it, and densities of rows that are left out: as far as each kind of posterior knows them."""
    if isinstance(posterior, SparsePosterior):
        return _of_sparse(ensemble, posterior, estimator)
    if isinstance(posterior, LocalPosterior):
        return _of_local(ensemble, posterior)
    return _of_exact(ensemble, posterior) if isinstance(posterior, Posterior) else Diagnosis()


def _of_exact(ensemble: Ensemble, posterior: Posterior) -> Diagnosis:
    _, log_slope = posterior.model.warp(posterior.values, posterior.data.y)
    units = float(log_slope.mean()) - math.log(ensemble.scale)  # log dz/dy a row: from densities of z to densities of y
    density = float(posterior.leave_one_out().log_density.mean()) + units
    residual = posterior.z - posterior.model.mean_at(posterior.values, posterior.data.X, posterior.H)
    half_log_det = posterior.L.diagonal(dim1=-2, dim2=-1).log().sum()
    # From the factor, not from the table of starts: rows may have been added since (update).
    nlml = float(0.5 * (residual * posterior.alpha).sum() + half_log_det) / posterior.rows + 0.5 * math.log(2 * math.pi) - units
    found = Diagnosis({"NLML per row": nlml, "leave-one-out negative log density per row": -density})
    if -density > nlml + 0.5:
        found.remarks.append(
            f"The leave-one-out density ({-density:.2f} nats a row) is {-density - nlml:.2f} worse than the NLML ({nlml:.2f}): "
            "a few rows are not what the others say. Look for outliers, and check on held-out data."
        )
    return found


def _of_local(ensemble: Ensemble, posterior: LocalPosterior) -> Diagnosis:
    rows = torch.linspace(0, posterior.rows - 1, _LEFT_OUT, device=posterior.device).round().long().unique()
    mean, variance = posterior.left_out(rows)
    z, log_slope = posterior.model.warp(posterior.values, posterior.data.y[rows])
    density = -0.5 * ((z - mean) ** 2 / variance + variance.log() + math.log(2 * math.pi)) + log_slope
    near = posterior.nearness.near
    numbers = {
        "rows near a point, that it is predicted from": near,
        f"leave-one-out negative log density per row ({len(rows):,} rows)": math.log(ensemble.scale) - float(density.mean()),
    }
    words = f"Of the {posterior.rows:,} rows, each point is predicted from the {near:,} or so that are nearest in a member's feature space."
    return Diagnosis(numbers, [words])


def _of_sparse(ensemble: Ensemble, posterior: SparsePosterior, estimator: ManifoldGPRegressor) -> Diagnosis:
    J = posterior.Z.shape[1]
    unexplained = _unexplained_share(posterior)
    numbers = {
        "inducing points": J,
        "bound on the NLML per row": float(posterior.bound[0]) / posterior.bound_rows + math.log(ensemble.scale),
        "prior variance that the inducing points leave unexplained": unexplained,
    }
    asked = " (method='auto')" if estimator.method == "auto" else ""
    remarks = [f"The sparse model{asked} sees {posterior.rows:,} rows through {J} inducing points."]
    if unexplained > 0.01:
        remarks.append(
            f"The inducing points leave {100 * unexplained:.1f} % of the prior variance unexplained: more of them, Sparse(inducing=...), would tell more."
        )
    method = as_method(estimator.method) or Sparse()
    if isinstance(method, Sparse) and method.inducing is not None and method.inducing > J:
        remarks.append(f"{J} inducing points explain the features already; {method.inducing} were asked for.")
    return Diagnosis(numbers, remarks)


def _unexplained_share(posterior: SparsePosterior) -> float:
    """Mean of (k_i − |L⁻¹ k_Zi|²) / k_i over the rows that were kept."""
    with torch.no_grad():
        _, _, V = posterior.moments(posterior.data.X)
        prior = posterior.prior_variance(posterior.data.X)
        return float(((prior - (V * V).sum(-2)) / prior).clamp_min(0.0).mean())


def numerics(posterior: Conditioned, ensemble: Ensemble, held_out: HeldOutReport | None, whose: str) -> Diagnosis:
    """Jitter, noise and its floor, and how far rounding reaches. whose: the words for the member that it is about, where there are others."""
    jitter, floor = float(posterior.jitter[0]), posterior.model.noise.floor
    noise = float(posterior.noise_variance()[0]) ** 0.5
    given = ", beside what was given of each row" if posterior.data.known_noise is not None else ""
    numbers = {
        "jitter used (share of the target's variance)": jitter,
        f"noise standard deviation (units of the target{given})": _noise_of_all(ensemble) * ensemble.scale,
        "noise floor (units of the target)": floor * ensemble.scale,
    }
    remarks: list[str] = []
    usual = (
        10 * JITTER_LADDER[0] * float(posterior.prior_variance(posterior.data.X).mean())
        if isinstance(posterior, SparsePosterior)
        else 0.0
    )
    if jitter > usual:
        remarks.append(
            f"The covariance needed a jitter of {jitter:.1e}: nearly duplicate rows, or length-scales far above the data."
        )
    if isinstance(posterior, Posterior):
        error = float(pivot_error(posterior.L)[0])
        numbers["rounding error of the smallest pivot (relative)"] = error
        if error > PIVOT_ERROR:
            remarks.append(
                f"Rounding reaches {error:.1e} of the covariance's smallest pivot: the smallest variances have few correct digits, "
                "and every update() factors the covariance anew, in O(N³)."
            )
    if posterior.model.noise.learned and noise < 1.5 * floor and _may_be_noise_free(held_out):
        remarks.append(
            f"The noise{whose} is at its floor: the data look noise-free. Lower its floor, noise=GaussianNoise(floor=...), if they are."
        )
    return Diagnosis(numbers, remarks)


def _noise_of_all(ensemble: Ensemble) -> float:
    """The standard deviation of the noise that the members expect, by their weights: the root of the mean variance."""
    parts = zip(ensemble.blocks, ensemble.log_weights, strict=True)
    return float(sum((weights.exp().sum(0) * block.noise_variance()).sum() for block, weights in parts)) ** 0.5


def _may_be_noise_free(held_out: HeldOutReport | None) -> bool:
    """Whether held-out rows, if there are any, are predicted as well as data without noise are as a rule: to a tenth of their standard deviation."""
    if held_out is None or held_out.mean is None or held_out.observed is None:
        return True
    return float(np.mean((held_out.observed - held_out.mean) ** 2)) ** 0.5 < 0.1
