"""diagnose(): what a fitted model looks like, target by target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp._system.plain_text import unit_of
from manifoldgp.averaging import as_averaging
from manifoldgp.averaging.kinds import SEARCHED_GP
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.averaging.verdict import (
    errors_in_words,
    held_out_numbers,
    held_out_remarks,
    sampling_numbers,
    sampling_remarks,
)
from manifoldgp.data.inputs import group_column, target_names
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.estimators.early_end import INTERRUPTED
from manifoldgp.estimators.input_influence import feature_span, input_counts, lengthscales, of_sample, sparsity, uninformative
from manifoldgp.estimators.input_std import input_names
from manifoldgp.estimators.kernel_choice import KernelChoice
from manifoldgp.estimators.noisy_inputs import InputNoise
from manifoldgp.estimators.posterior_checks import evidence, model_size, numerics
from manifoldgp.estimators.start_agreement import start_agreement
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.structure.expressions import text_of

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_OF_ONE_MEMBER = (
    "Trained parameters, NLML, leave-one-out density, jitter, length-scales and features are those of the member with the most weight; "
    "the noise is that of all members together."
)
"""What the numbers of an average are about."""


def diagnose(estimator: ManifoldGPRegressor) -> Diagnosis:
    """Jitter, noise floor, length-scales, features, leave-one-out density and agreement of the starts of a fitted estimator."""
    parts = [_of_output(estimator, ensemble, o) for o, ensemble in enumerate(estimator.ensembles_)]
    found = Diagnosis.of_targets(parts)
    beside = (
        Diagnosis(remarks=[INTERRUPTED] if estimator.interrupted_ else []) + _of_choice(estimator) + _of_input_noise(estimator)
    )
    both = found.numbers | beside.numbers if len(parts) == 1 else beside.numbers | found.numbers
    return Diagnosis(both, beside.remarks + found.remarks, found.whose)


def _of_choice(estimator: ManifoldGPRegressor) -> Diagnosis:
    """Which kernel held-out rows chose, and how large errors were there."""
    choice: KernelChoice | None = getattr(estimator, "kernel_choice_", None)
    if choice is None:
        return Diagnosis()
    errors = [choice.error_remark(o, _unit(estimator, o)) for o in range(len(choice.errors))]
    named = [f"output {o}: {words}" if len(errors) > 1 else words for o, words in enumerate(errors)]
    return Diagnosis(choice.numbers(), [choice.remark(), *named])


def _of_input_noise(estimator: ManifoldGPRegressor) -> Diagnosis:
    """How large the errors of the inputs are, and what part of the noise comes from them."""
    noise: InputNoise | None = getattr(estimator, "input_noise_", None)
    if noise is None:
        return Diagnosis()
    names = input_names(estimator)
    shares = [f"{100 * share:.0f} %" for share in noise.share]
    how = "learned" if noise.learned else "given"
    words = ", ".join(f"{name} ± {std:.3g}" for name, std in zip(names, noise.std, strict=True) if std > 0)
    remarks = [
        f"Noisy inputs ({how}): {words or 'none of them'}. On average over the training rows {' and '.join(shares)} of the noise variance comes from them, where the model is steep. "
        "Predictions take their inputs as exact; input_cov says otherwise."
    ]
    if not noise.settled:
        rounds = "1 round" if noise.rounds == 1 else f"{noise.rounds} rounds"
        remarks.append(
            f"The slopes that turn input noise into noise of the target had not settled after {rounds} of training (one more would change the noise by {100 * noise.change:.0f} %)."
        )
    return Diagnosis(
        {f"input noise, standard deviation of {name}": float(std) for name, std in zip(names, noise.std, strict=True)}, remarks
    )


def _of_output(estimator: ManifoldGPRegressor, ensemble: Ensemble, output: int) -> Diagnosis:
    """Of one target: what held-out rows and chains say, and then the member with the most weight."""
    block, member = ensemble.heaviest()
    posterior = block.only(torch.tensor([member]))
    rows = Diagnosis({"rows": posterior.rows, **input_counts(estimator, posterior), "features": posterior.features})
    if np.ptp(posterior.data.y.cpu().numpy()) == 0.0:
        only = (
            f"The target has one value only{of_sample(posterior)}: there is nothing to learn, and nothing is said about the fit."
        )
        return rows + Diagnosis(remarks=[only])
    starts = estimator.starts_[estimator.starts_["output"] == output]
    held_out = estimator.held_out_[output]
    averaged = sum(b.members for b in ensemble.blocks) > 1
    whose = " of the model with the most weight" if averaged else ""
    found = (
        rows
        + _of_held_out(estimator, ensemble, output, starts)
        + _of_sampling(estimator, output)
        + model_size(posterior, averaged or held_out is not None)
        + evidence(ensemble, posterior, estimator)
        + numerics(posterior, ensemble, held_out, whose)
        + lengthscales(estimator, posterior, whose)
        + feature_span(estimator, posterior)
        + sparsity(estimator, posterior, averaged)
        + start_agreement(starts, posterior.rows, hasattr(as_averaging(estimator.averaging), "max_iter"))
        + uninformative(estimator, posterior)
    )
    return replace(found, remarks=found.remarks or ["Nothing unusual."], whose=_OF_ONE_MEMBER if averaged else "")


def _of_held_out(estimator: ManifoldGPRegressor, ensemble: Ensemble, output: int, starts: np.ndarray) -> Diagnosis:
    """How well rows that a stack held out are predicted, and by whom."""
    held_out = estimator.held_out_[output]
    if held_out is None:
        return Diagnosis()
    errors = errors_in_words(held_out, ensemble.scale, _unit(estimator, output))
    remarks = [
        *errors,
        *held_out_remarks(held_out, group_column(estimator)),
        *_against_uneven_errors(estimator, held_out),
        *_searched(estimator, ensemble, starts),
    ]
    return Diagnosis(held_out_numbers(held_out, ensemble.scale), remarks)


def _against_uneven_errors(estimator: ManifoldGPRegressor, held_out: HeldOutReport) -> list[str]:
    """What may help where errors follow the target, of a model that can still have it."""
    noisy_inputs = getattr(estimator, "input_noise_", None) is not None
    known = any(block.data.known_noise is not None for ensemble in estimator.ensembles_ for block in ensemble.blocks)
    if estimator.target_warping is not None or noisy_inputs or known:
        return []
    if held_out.intervals.uneven is None:
        return []
    return [
        "If it is the noise that follows the target, target_warping='tanh' learns a scale on which it may not; fit(..., noise_std=) takes what is known of each row."
    ]


def _of_sampling(estimator: ManifoldGPRegressor, output: int) -> Diagnosis:
    """How well the chains of full Bayes mixed."""
    sampling = estimator.sampling_[output]
    return Diagnosis() if sampling is None else Diagnosis(sampling_numbers(sampling), sampling_remarks(sampling))


def _unit(estimator: ManifoldGPRegressor, output: int) -> str:
    """The unit of a target that its name ends in, or that stood below it in the table."""
    encoding = getattr(estimator, "table_encoding_", None)
    name = target_names(estimator)[output]
    return unit_of(name) if encoding is None else encoding.unit(name)


def _searched(estimator: ManifoldGPRegressor, ensemble: Ensemble, starts: np.ndarray) -> list[str]:
    """Which kernels the searched GPs of a stack have."""
    of_members = starts["group"][starts["chosen"]]  # in the order of the ensemble
    first = np.cumsum([0, *(block.members for block in ensemble.blocks)])
    if SEARCHED_GP not in of_members or first[-1] != len(of_members):
        return []
    names = input_names(estimator)
    seen = [names[d] for d in estimator.x_scaler_.columns]
    blocks = [block for block, at in zip(ensemble.blocks, first, strict=False) if of_members[at] == SEARCHED_GP]
    found = dict.fromkeys(text_of(block.model.kernel, seen) for block in blocks)
    return [f"The searched GP has the kernel {', or '.join(found)}."]
