"""An expression multiplied out: a sum of products of base kernels, each an independent part of what was found.

(SE + Per) * Lin              becomes    SE * Lin  +  Per * Lin
CP(x; k0, k1)                 becomes    until(x) * k0  +  from(x) * k1
"""

from __future__ import annotations

from itertools import product

import torch

from manifoldgp.kernels import ChangePoint, Constant, Product, Sum, Switch
from manifoldgp.parameters import Tree
from manifoldgp.structure.expressions import Valued, parts_of, product_of


def parts_in_normal_form(valued: Valued) -> list[Valued]:
    """The products whose sum the expression is; constants are one of them at most.

    >>> from manifoldgp.kernels import Linear, SquaredExponential
    >>> one = torch.ones((), dtype=torch.float64)
    >>> line = Valued(Linear(dims=(0,)), {"weights": torch.ones(1)})
    >>> smooth = Valued(SquaredExponential(dims=(0,)), {"variance": one, "lengthscale": torch.ones(1)})
    >>> from manifoldgp.structure.expressions import sum_of, text_of
    >>> [text_of(part.kernel) for part in parts_in_normal_form(product_of([line, sum_of([line, smooth])]))]
    ['Lin(x0) * Lin(x0)', 'Lin(x0) * SE(x0)']
    """
    found = _multiplied_out(valued)
    constants = [part for part in found if isinstance(part.kernel, Constant)]
    if len(constants) < 2:
        return found
    total = torch.stack([part.values["variance"] for part in constants]).sum()
    return [part for part in found if not isinstance(part.kernel, Constant)] + [Valued(Constant(), {"variance": total})]


def factors_of(part: Valued) -> list[Valued]:
    """The base kernels of a product, or the one base kernel."""
    return parts_of(part) if isinstance(part.kernel, Product) else [part]


def _multiplied_out(valued: Valued) -> list[Valued]:
    if isinstance(valued.kernel, Sum):
        return [term for part in parts_of(valued) for term in _multiplied_out(part)]
    if isinstance(valued.kernel, ChangePoint):
        switch = {name: valued.values[name] for name in ("location", "width")}
        sides = zip((False, True), parts_of(valued), strict=True)
        return [
            product_of([_switch(valued.kernel.on, rising, switch), term])
            for rising, side in sides
            for term in _multiplied_out(side)
        ]
    if isinstance(valued.kernel, Product):
        return [product_of(terms) for terms in product(*map(_multiplied_out, parts_of(valued)))]
    return [valued]


def _switch(on: int, rising: bool, values: Tree) -> Valued:
    return Valued(Switch(rising=rising, dims=(on,)), dict(values))
