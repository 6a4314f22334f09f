"""Going on from a checkpoint: what it holds, as all processes see it, and the model that stands there."""

from __future__ import annotations

import warnings

import torch

from manifoldgp.errors import FitWarning, InputError, ManifoldGPError
from manifoldgp.parameters import Layout
from manifoldgp.streaming.checkpoint import Checkpoint, Saved
from manifoldgp.streaming.placement import Placement
from manifoldgp.streaming.ranks import Ranks
from manifoldgp.streaming.rows import ModelRows
from manifoldgp.streaming.starts import Progress

_OTHER_MODEL = "The checkpoint belongs to another model. Remove it, or continue with the arguments it was written with."


def saved_state(checkpoint: Checkpoint | None, ranks: Ranks) -> Saved | None:
    """What the checkpoint holds, as the first process reads it."""
    mine: Saved | ManifoldGPError | None = None
    if checkpoint is not None and ranks.first:
        try:
            mine = checkpoint.read()
        except ManifoldGPError as error:  # all processes end, not the first alone
            mine = error
    saved = ranks.gather(mine)[0]
    if isinstance(saved, ManifoldGPError):
        raise saved
    return saved


def resumed(saved: Saved, placement: Placement, rows: ModelRows) -> Progress:
    """Where the checkpoint stands, on the stage it was written in."""
    plain, device = Layout(placement.parameters), placement.device
    any_values = plain.unflatten(torch.zeros(plain.size, dtype=torch.float64, device=device), placement.constants)
    sample = rows.sample(2, placement.seed)
    Q = placement.model.features_at(any_values, sample.X).shape[-1]
    Z_size = len(saved.theta) - plain.size
    if Z_size <= 0 or Z_size % Q:
        raise InputError(_OTHER_MODEL)
    layout = placement.layout(torch.zeros(Z_size // Q, Q, dtype=torch.float64, device=device))
    if list(saved.names) != list(layout.names):
        raise InputError(_OTHER_MODEL)
    values = layout.unflatten(torch.as_tensor(saved.theta, device=device), placement.constants)
    return Progress(values, saved.stage, saved.iterations)


def tell_where(saved: Saved, checkpoint: Checkpoint, stages: int, calls: int) -> None:
    """Say that training goes on, and from where. calls: how many calls up the one is that the warning points at."""
    words = "had ended" if saved.stage >= stages else f"had reached iteration {saved.iterations} of stage {saved.stage + 1}"
    message = f"Training is going on from the checkpoint {checkpoint.path}, where it {words}; remove the file to start anew."
    warnings.warn(message, FitWarning, stacklevel=calls + 1)
