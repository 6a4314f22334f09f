"""The groups of a stack of exact models: what their members are made of."""

from __future__ import annotations

from dataclasses import replace

from manifoldgp.averaging.members import nested_gp, plain_gp
from manifoldgp.averaging.stacking import PLAIN_GPS
from manifoldgp.kernels import Additive, Kernel, Matern32, SquaredExponential
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.model import Model

PLAIN, ROUGH_GP, ADDITIVE_GP, SEARCHED_GP = PLAIN_GPS
WARM, COLD, LARGE, ROUGH, OWN = "warm", "cold", "large", "rough", "own"
"""Names of the groups.

plain GP: Identity features. rough GP: the same with a Matérn 3/2 kernel. additive GP: the same with sums of functions of few inputs.
searched GP: the same with a kernel that was searched for; only where it is asked for.
warm: nested mGPs that start at the plain GP and stop early. cold: nested mGPs that start far from it. large: cold ones with a larger network, where rows are many.
rough: cold or large ones with a Matérn 3/2 kernel.
own: the features and kernel that the user chose (by default the paper's log-sigmoid network)."""

STEPPED = (COLD, LARGE, ROUGH, OWN)
"""Groups that are trained in steps. Warm members stop early by their nature, and plain GPs converge."""


def plain_models(template: Model, inputs: int) -> dict[str, Model]:
    """The plain GPs that a stack may have: the template's kernel first, and others beside it unless the user has chosen it.

    >>> list(plain_models(Model(), 3)), list(plain_models(Model(), 1)), list(plain_models(Model(kernel=Matern32()), 3))
    (['plain GP', 'rough GP', 'additive GP'], ['plain GP', 'rough GP'], ['plain GP'])
    """
    models = {PLAIN: plain_gp(template)}
    if type(template.kernel) is SquaredExponential:
        models[ROUGH_GP] = _with_kernel(template, rough_kernel(template.kernel))
        if inputs > 1:
            models[ADDITIVE_GP] = _with_kernel(template, Additive())
    return models


def models_of_groups(template: Model, inputs: int, hidden: int, q: int) -> dict[str, Model]:
    """What the members of every group of an exact stack are made of."""
    plain, nested = plain_models(template, inputs), nested_gp(template, hidden, q)
    rough = {ROUGH: rough_nested(template, hidden, q)} if ROUGH_GP in plain else {}
    return {**plain, WARM: nested, COLD: nested, LARGE: nested_gp(template, *large(hidden, q)), **rough, OWN: template}


def large(hidden: int, q: int) -> tuple[int, int]:
    """Units and features of the larger network."""
    return 4 * hidden, 2 * q


def rough_kernel(kernel: Kernel) -> Matern32:
    """Matérn 3/2 with the parameters of another stationary kernel, where it starts.

    >>> rough_kernel(SquaredExponential(ard=False, amplitude=False))
    Matern32(dims=None, ard=False, amplitude=False, scaled=True)
    """
    return (
        Matern32(ard=kernel.ard, amplitude=kernel.amplitude, scaled=kernel.scaled)
        if isinstance(kernel, Stationary)
        else Matern32()
    )


def _with_kernel(template: Model, kernel: Kernel) -> Model:
    return plain_gp(replace(template, kernel=kernel))


def rough_nested(template: Model, hidden: int, q: int) -> Model:
    """The nested mGP with the kernel of the rough GP."""
    return nested_gp(replace(template, kernel=rough_kernel(template.kernel)), hidden, q)
