"""The groups of a stack of exact models: what their members are made of, and where they start."""

from __future__ import annotations

from dataclasses import replace

from manifoldgp.averaging.members import nested_gp, plain_gp
from manifoldgp.kernels import Kernel, Matern32, SquaredExponential
from manifoldgp.model import Model

PLAIN, ROUGH_GP, ADDITIVE_GP, WARM, COLD, ROUGH, OWN = "plain GP", "rough GP", "additive GP", "warm", "cold", "rough", "own"
"""Names of the groups.

plain GP: Identity features. rough GP: the same with a Matérn 3/2 kernel. additive GP: the same with sums of functions of few inputs.
warm: nested mGPs that start at the plain GP and stop early. cold: nested mGPs that start far from it. rough: cold ones with a Matérn 3/2 kernel.
own: the features and kernel that the user chose (by default the paper's log-sigmoid network)."""

STEPPED = (COLD, ROUGH, OWN)
"""Groups that are trained in steps. Warm members stop early by their nature, and plain GPs converge."""


def other_kernels(kernel: Kernel, inputs: int) -> dict[str, Kernel]:
    """Kernels of further plain GPs beside the default one; none beside a kernel that the user has chosen."""
    if type(kernel) is not SquaredExponential:
        return {}
    return {ROUGH_GP: Matern32(amplitude=kernel.amplitude)}


def plain_models(template: Model, inputs: int) -> dict[str, Model]:
    """The plain GPs that a stack may have, the template's own kernel first."""
    others = other_kernels(template.kernel, inputs)
    return {PLAIN: plain_gp(template)} | {name: plain_gp(replace(template, kernel=kernel)) for name, kernel in others.items()}


def rough_nested(template: Model, hidden: int, q: int) -> Model:
    """The nested mGP with the kernel of the rough GP."""
    return nested_gp(replace(template, kernel=Matern32(amplitude=getattr(template.kernel, "amplitude", True))), hidden, q)
