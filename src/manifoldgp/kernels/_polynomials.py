"""Sums of products of one-dimensional kernels over all subsets of inputs, by elementary symmetric polynomials, with their gradient.

With z_d = k0(t_d − t'_d) − a_d a'_d for every input d (the means a are those of an orthogonal kernel, or none) and e_r the sum of all products of r
different z_d,

    K = w_0 + Σ_r w_r e_r(z_1, …, z_D),   e_r ← e_r + z_d e_(r−1)  for one d after another

takes D R multiplications for 2^D subsets. Newton's identities from power sums take as many, but subtract numbers of like size; here nothing is subtracted
where the z_d are positive. The slope with respect to one z_d is what is left of the polynomials without that input. Taking it out, e_r(without d) =
e_r − z_d e_(r−1)(without d), and summing over orders is Horner's rule in −z_d:

    dK/dz_d = c_0 − z_d (c_1 − z_d (c_2 − …)),   c_k = Σ_(r > k) w_r e_(r−1−k)

whose rounding stays below a few units of the last digit of K, because |z_d| ≤ 1. Everything is worked on in blocks of rows that stay in the processor's
cache, and computed anew on the way back: nothing of size N × N is kept but K.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from manifoldgp.kernels._profiles import Profile
from manifoldgp.kernels._radial import radial

BLOCK = 2**15
"""Pairs of rows worked on at a time."""


@dataclass(frozen=True)
class AdditiveForm:
    """What training needs to know of an additive kernel: the profile of its one-dimensional kernels, its highest order, and whether they have zero mean."""

    profile: Profile
    orders: int
    orthogonal: bool = False

    def order_of(self, D: int) -> int:
        """The highest order that D inputs have."""
        return min(self.orders, D)


class Stack(NamedTuple):
    """Several arrays of one shape: as one tensor, and one by one."""

    all: Tensor
    each: tuple[Tensor, ...]


class Room:
    """Memory to work in, kept from block to block. Looking at a part of a tensor costs as much as adding thousands of numbers, so views are kept too."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device
        self._parts: dict[str, Tensor] = {}
        self._stacks: dict[tuple, Stack] = {}

    def take(self, name: str, *shape: int) -> Stack:
        """Room for arrays of this shape, the first number of which says how many; what was there under the name is lost."""
        found = self._stacks.get((name, shape))
        return self._make(name, shape) if found is None else found

    def _make(self, name: str, shape: tuple[int, ...]) -> Stack:
        size, part = math.prod(shape), self._parts.get(name)
        if part is None or part.numel() < size:
            part = self._parts[name] = torch.empty(size, dtype=torch.float64, device=self._device)
            self._stacks = {key: stack for key, stack in self._stacks.items() if key[0] != name}  # they look at other memory
        whole = part[:size].view(shape)
        stack = self._stacks[name, shape] = Stack(whole, whole.unbind())
        return stack


@dataclass(frozen=True)
class Side:
    """One side of the pairs. T: scaled inputs (D, m, n). a: their means (D, m, n), or None where the kernels have none."""

    T: Tensor
    a: Tensor | None = None

    def rows(self, i: slice, members: slice = slice(None)) -> Side:
        return Side(self.T[:, members, i], None if self.a is None else self.a[:, members, i])


def _base(form: AdditiveForm, one: Side, other: Side, room: Room, slopes: bool) -> tuple[Stack, Tensor | None]:
    """z (D, m, n, c) of all pairs, and the slope g of k0 if it is asked for."""
    shape = *one.T.shape, other.T.shape[-1]
    stack, g = room.take("z", *shape), None
    z = stack.all
    torch.sub(one.T.unsqueeze(-1), other.T.unsqueeze(-2), out=z)
    torch.addcmul(one.T.new_zeros(()), z, z, value=form.profile.scale, out=z)  # one pass instead of two
    if form.profile.slope == "matrix":
        g = room.take("g", *shape).all
    form.profile.evaluate(z, g, None)
    if one.a is None or other.a is None:
        return stack, z if form.profile.slope == "k" else g
    if slopes and form.profile.slope == "k":
        g = room.take("g", *shape).all.copy_(z)
    z.addcmul_(one.a.unsqueeze(-1), other.a.unsqueeze(-2), value=-1.0)
    return stack, g


def polynomials(z: Stack, e: Stack) -> None:
    """Overwrite e by the polynomials e_1, e_2, ... of z, as many as there is room for and not more than there are z."""
    first, *others = z.each
    orders = len(e.each)
    e.each[0].copy_(first)
    for d, z_d in enumerate(others, 1):
        if d < orders:
            torch.mul(z_d, e.each[d - 1], out=e.each[d])
        for r in range(min(d, orders) - 1, 0, -1):
            e.each[r].addcmul_(z_d, e.each[r - 1])
        e.each[0].add_(z_d)


def fill_pairs(form: AdditiveForm, weights: Sequence[Tensor], one: Side, other: Side, K: Tensor, room: Room) -> None:
    """Overwrite K (m, n, c); weights: one (m, 1, 1) for each order from 0 on."""
    z, _ = _base(form, one, other, room, slopes=False)
    constant, first, *others = weights
    e = room.take("e", len(weights) - 1, *K.shape)
    polynomials(z, e)
    torch.addcmul(constant, e.each[0], first, out=K)
    for e_r, w_r in zip(e.each[1:], others, strict=True):
        K.addcmul_(e_r, w_r)


@dataclass(frozen=True)
class Pulled:
    """dL of the inputs of some pairs: of either side's T and a, shaped like them, and of the weights (orders + 1, m)."""

    one: Side
    other: Side
    weights: Tensor


def pull_pairs(form: AdditiveForm, weights: Sequence[Tensor], one: Side, other: Side, V: Tensor, room: Room) -> Pulled:
    """The gradient of L from V = dL/dK (m, n, c), contiguous; weights: one (m, 1, 1) for each order from 0 on."""
    z, g = _base(form, one, other, room, slopes=True)
    e = room.take("e", len(weights) - 1, *V.shape)
    polynomials(z, e)
    flat = V.view(len(V), 1, -1)
    of_weights = [flat.sum((-2, -1)), *(torch.bmm(flat, e_r.view(len(V), -1, 1))[:, 0, 0] for e_r in e.each)]
    Q = _slopes_of_base(weights, z.all, e, V, room)
    da1 = da2 = None
    if one.a is not None and other.a is not None:
        da1 = torch.matmul(Q, other.a.unsqueeze(-1)).squeeze(-1).neg_()
        da2 = torch.matmul(one.a.unsqueeze(-2), Q).squeeze(-2).neg_()
    E = Q.mul_(g) if g is not None else Q  # dL/dz ∘ g, and from dk0/dr² = −c g / 2 the rest
    E.mul_(torch.sub(one.T.unsqueeze(-1), other.T.unsqueeze(-2), out=z.all))
    c = form.profile.steepness * form.profile.scale
    return Pulled(Side(E.sum(-1).mul_(-c), da1), Side(E.sum(-2).mul_(c), da2), torch.stack(of_weights))


def _slopes_of_base(weights: Sequence[Tensor], z: Tensor, e: Stack, V: Tensor, room: Room) -> Tensor:
    """dL/dz (D, m, n, c) by Horner's rule."""
    c, Q = room.take("c", *e.all.shape).each, room.take("Q", *z.shape).all
    _, *w = weights
    for k, c_k in enumerate(c[:-1]):
        torch.addcmul(w[k], e.each[0], w[k + 1], out=c_k)
        for r in range(k + 2, len(c)):
            c_k.addcmul_(e.each[r - 1 - k], w[r])
        c_k.mul_(V)
    torch.mul(V, w[-1], out=c[-1])
    if len(c) == 1:
        return Q.copy_(c[0].expand_as(Q))
    torch.addcmul(c[-2], z, c[-1], value=-1.0, out=Q)
    for c_k in reversed(c[:-2]):
        torch.addcmul(c_k, z, Q, value=-1.0, out=Q)
    return Q


# ------------------------------------------------------------------------------------------------------------------ autograd


def additive(T1: Tensor, T2: Tensor, a1: Tensor | None, a2: Tensor | None, weights: Tensor, form: AdditiveForm) -> Tensor:
    """K `(*B, N1, N2)`, differentiable any number of times.

    T1: `(*B, N1, D)`. T2: `(*B, N2, D)`. a1, a2: shaped like them, or None. weights: `(*B, orders + 1)` from order 0 on. Their batches broadcast.
    """
    tensors = [T for T in (T1, T2, a1, a2) if T is not None]
    batch = np.broadcast_shapes(weights.shape[:-1], *(T.shape[:-2] for T in tensors))
    T1, T2 = T1.expand(*batch, *T1.shape[-2:]), T2.expand(*batch, *T2.shape[-2:])
    a1, a2 = (None if a is None else a.expand(*batch, *a.shape[-2:]) for a in (a1, a2))
    weights = weights.expand(*batch, -1)
    if T1.numel() == 0 or T2.numel() == 0:
        return T1 @ T2.mT
    return _Additive.apply(T1, T2, a1, a2, weights, form)  # type: ignore[return-value]


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, T1: Tensor, T2: Tensor, a1: Any, a2: Any, weights: Tensor, form: AdditiveForm) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(T1, T2, a1, a2, weights)
        ctx.form = form
        one, other, w = _side(T1, a1), _side(T2, a2), _weights(weights)
        K, room = T1.new_empty(w.shape[1], one.T.shape[-1], other.T.shape[-1]), Room(T1.device)
        for m, i, j in _blocks(*K.shape):
            part = room.take("K", 1, *K[m, i, j].shape).each[0]
            fill_pairs(form, w[:, m].unbind(), one.rows(i, m), other.rows(j, m), part, room)
            K[m, i, j] = part
        return K.view(*T1.shape[:-2], *K.shape[1:])

    @staticmethod
    def backward(ctx: Any, W: Tensor):  # type: ignore[override]
        T1, T2, a1, a2, weights = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: the gradient itself is going to be differentiated
            return _differentiable_gradient(W, (T1, T2, a1, a2, weights), ctx.form, ctx.needs_input_grad)
        one, other, w = _side(T1, a1), _side(T2, a2), _weights(weights)
        W = W.reshape(w.shape[1], one.T.shape[-1], other.T.shape[-1])
        sides = [[torch.zeros_like(part) if part is not None else None for part in (side.T, side.a)] for side in (one, other)]
        dw, room = torch.zeros_like(w[..., 0, 0]), Room(T1.device)
        for m, i, j in _blocks(*W.shape):
            V = room.take("V", 1, *W[m, i, j].shape).each[0].copy_(W[m, i, j])
            pulled = pull_pairs(ctx.form, w[:, m].unbind(), one.rows(i, m), other.rows(j, m), V, room)
            for (dT, da), found, rows in zip(sides, (pulled.one, pulled.other), (i, j), strict=True):
                dT[:, m, rows] += found.T
                if da is not None:
                    da[:, m, rows] += found.a
            dw[:, m] += pulled.weights
        gradients = [
            None if part is None else part.permute(1, 2, 0).reshape(like.shape)
            for side, T in zip(sides, (T1, T2), strict=True)
            for part, like in zip(side, (T, T), strict=True)
        ]
        dT1, da1, dT2, da2 = gradients
        return dT1, dT2, da1, da2, dw.mT.reshape(weights.shape), None


def _side(T: Tensor, a: Tensor | None) -> Side:
    """The rows as (D, m, N)."""
    return Side(*(None if part is None else part.reshape(-1, *part.shape[-2:]).permute(2, 0, 1).contiguous() for part in (T, a)))  # type: ignore[arg-type]


def _weights(weights: Tensor) -> Tensor:
    return weights.reshape(-1, weights.shape[-1]).mT.contiguous()[..., None, None]


def _blocks(m: int, n: int, c: int) -> Iterator[tuple[slice, slice, slice]]:
    """Several small matrices at a time, or some rows and columns of a large one: about BLOCK pairs each."""
    columns = min(c, BLOCK)
    rows = min(n, max(1, BLOCK // columns))
    members = max(1, BLOCK // (rows * columns))
    for r in range(0, m, members):
        for i in range(0, n, rows):
            for j in range(0, c, columns):
                yield slice(r, r + members), slice(i, i + rows), slice(j, j + columns)


def _differentiable_gradient(W: Tensor, inputs: tuple[Tensor | None, ...], form: AdditiveForm, needed: tuple[bool, ...]):
    """The same gradient in differentiable operations."""
    T1, T2, a1, a2, weights = inputs
    assert T1 is not None
    assert T2 is not None
    assert weights is not None
    z = [radial(T1[..., d : d + 1], T2[..., d : d + 1], None, form.profile) for d in range(T1.shape[-1])]
    if a1 is not None and a2 is not None:
        z = [z_d - a1[..., d].unsqueeze(-1) * a2[..., d].unsqueeze(-2) for d, z_d in enumerate(z)]
    K = sum_of_orders(z, weights, 2)
    wanted = [tensor for tensor, need in zip(inputs, needed, strict=False) if need]
    found = iter(torch.autograd.grad(K, wanted, W, create_graph=True))
    return *(next(found) if need else None for need in needed[:-1]), None


def sum_of_orders(z: list[Tensor], weights: Tensor, axes: int) -> Tensor:
    """w_0 + Σ_r w_r e_r(z), differentiable, for z_d (*B, ...) with ``axes`` dimensions after the batch, and weights (*B, orders + 1)."""
    e: list[Tensor] = [z[0]]
    for z_d in z[1:]:
        longer = [z_d * e[-1]] if len(e) < weights.shape[-1] - 1 else []
        e = [e[0] + z_d, *(e[r] + z_d * e[r - 1] for r in range(1, len(e))), *longer]
    w = weights.unbind(-1)
    spread = (..., *[None] * axes)
    total = w[0][spread]
    for w_r, e_r in zip(w[1:], e, strict=True):
        total = total + w_r[spread] * e_r
    return total
