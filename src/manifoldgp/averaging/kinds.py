"""The groups of a stack of exact models: what their members are made of."""

from __future__ import annotations

from dataclasses import replace

from manifoldgp.averaging.members import nested_gp, plain_gp
from manifoldgp.averaging.stacking import PLAIN_GPS
from manifoldgp.kernels import Additive, Kernel, Matern32, SquaredExponential
from manifoldgp.model import Model

PLAIN, ROUGH_GP, ADDITIVE_GP = PLAIN_GPS
WARM, COLD, ROUGH, OWN = "warm", "cold", "rough", "own"
"""Names of the groups.

plain GP: Identity features. rough GP: the same with a Matérn 3/2 kernel. additive GP: the same with sums of functions of few inputs.
warm: nested mGPs that start at the plain GP and stop early. cold: nested mGPs that start far from it. rough: cold ones with a Matérn 3/2 kernel.
own: the features and kernel that the user chose (by default the paper's log-sigmoid network)."""

STEPPED = (COLD, ROUGH, OWN)
"""Groups that are trained in steps. Warm members stop early by their nature, and plain GPs converge."""


def plain_models(template: Model, inputs: int) -> dict[str, Model]:
    """The plain GPs that a stack may have: the template's kernel first, and others beside it unless the user has chosen it.

    >>> list(plain_models(Model(), 3)), list(plain_models(Model(), 1)), list(plain_models(Model(kernel=Matern32()), 3))
    (['plain GP', 'rough GP', 'additive GP'], ['plain GP', 'rough GP'], ['plain GP'])
    """
    models = {PLAIN: plain_gp(template)}
    if type(template.kernel) is SquaredExponential:
        models[ROUGH_GP] = _with_kernel(template, Matern32(amplitude=template.kernel.amplitude))
        if inputs > 1:
            models[ADDITIVE_GP] = _with_kernel(template, Additive())
    return models


def models_of_groups(template: Model, inputs: int, hidden: int, q: int) -> dict[str, Model]:
    """What the members of every group of an exact stack are made of."""
    plain, nested = plain_models(template, inputs), nested_gp(template, hidden, q)
    rough = {ROUGH: rough_nested(template, hidden, q)} if ROUGH_GP in plain else {}
    return {**plain, WARM: nested, COLD: nested, **rough, OWN: template}


def _with_kernel(template: Model, kernel: Kernel) -> Model:
    return plain_gp(replace(template, kernel=kernel))


def rough_nested(template: Model, hidden: int, q: int) -> Model:
    """The nested mGP with the kernel of the rough GP."""
    return nested_gp(replace(template, kernel=Matern32(amplitude=getattr(template.kernel, "amplitude", True))), hidden, q)
