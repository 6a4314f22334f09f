"""What the columns of a state are, and how the regression sees them: inputs z of a state and an action, outputs that a state is moved by.

Angles enter as sine and cosine. A position whose rate is a state too is not learnt: with rates v and v' before and after the step,

    x' = x + a v + b v',        q' = q ⊗ exp(½ (a ω + b ω'))        (a quaternion, ω in the body's frame; in the world's, the factors swap)

where a and b are fitted to the recordings, so that neither the time step nor the integrator has to be known. Flags are learnt as next values, all else as differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.dynamics.trajectories import Transitions
from manifoldgp.errors import FileFormatError, InputError

_SHAPES = ((1, 1), (4, 3))
"""Columns and rates of a position and of a quaternion."""

Rates = Mapping[str | tuple[str, ...], str | tuple[str, ...]]


@dataclass(frozen=True)
class Kinematics:
    """Columns (1 of a position, 4 of a quaternion) that follow from columns of rates (1 or 3) with the shares a and b of the rates before and after a step.

    noise: the standard deviation of what this leaves unexplained. world: whether a quaternion's rates are in the world's frame.
    """

    columns: tuple[int, ...]
    rates: tuple[int, ...]
    before: float = 0.0
    after: float = 0.0
    noise: float = 0.0
    world: bool = False

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], states: int) -> Kinematics:
        columns, rates = _places(plain["columns"], states), _places(plain["rates"], states)
        if (len(columns), len(rates)) not in _SHAPES:
            raise FileFormatError("The file's dynamics have a position or a quaternion with another number of rates.")
        before, after, noise = (_finite(plain[part]) for part in ("before", "after", "noise"))
        return cls(columns, rates, before, after, noise, bool(plain["world"]))

    @property
    def turns(self) -> bool:
        """Whether it is a quaternion."""
        return len(self.columns) == 4

    def __call__(self, states: Tensor, moved: Tensor) -> Tensor:
        """The columns (..., 1 or 4) after the step, where the rates are already those of ``moved``."""
        rates = list(self.rates)
        by = self.before * states[..., rates] + self.after * moved[..., rates]
        here = states[..., list(self.columns)]
        if not self.turns:
            return here + by
        turn = _exponential(by)
        return _unit(_product(turn, here) if self.world else _product(here, turn))


@dataclass(frozen=True)
class StateSpace:
    """The columns of states and actions and their roles; see the module."""

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    angles: tuple[int, ...] = ()
    flags: tuple[int, ...] = ()
    kinematics: tuple[Kinematics, ...] = ()
    dt: float | None = None
    learnt: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        follow = {column for k in self.kinematics for column in k.columns}
        object.__setattr__(self, "learnt", tuple(i for i in range(len(self.state_names)) if i not in follow))

    @property
    def plain(self) -> tuple[int, ...]:
        """The states that are inputs as they are."""
        return tuple(i for i in range(len(self.state_names)) if i not in self.angles)

    @property
    def affine(self) -> bool:
        """Whether a next state is affine in state and outputs: a quaternion's is not."""
        return not any(k.turns for k in self.kinematics)

    @property
    def input_names(self) -> list[str]:
        """The columns that the regression sees."""
        turned = [f"{part}({self.state_names[i]})" for part in ("sin", "cos") for i in self.angles]
        return [*(self.state_names[i] for i in self.plain), *turned, *self.action_names]

    @property
    def output_names(self) -> list[str]:
        """The columns that the regression predicts."""
        return [("next " if i in self.flags else "change of ") + self.state_names[i] for i in self.learnt]

    @property
    def rates(self) -> dict[str | tuple[str, ...], str | tuple[str, ...]]:
        """The kinematics by name, as they are given."""
        return {self._named(k.columns): self._named(k.rates) for k in self.kinematics}

    def _named(self, places: tuple[int, ...]) -> str | tuple[str, ...]:
        names = [self.state_names[i] for i in places]
        return tuple(names) if len(names) > 1 else names[0]

    def to_plain(self) -> dict[str, Any]:
        """As plain data, for a file."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> StateSpace:
        """From a file, which may be damaged or forged."""
        names, actions = (tuple(map(str, plain[part])) for part in ("state_names", "action_names"))
        kinematics = tuple(Kinematics.from_plain(k, len(names)) for k in plain["kinematics"])
        angles, flags = (_places(plain[part], len(names)) for part in ("angles", "flags"))
        space = cls(names, actions, angles, flags, kinematics, None if plain["dt"] is None else _finite(plain["dt"]))
        if not space.learnt or len({*names, *actions}) != len(names) + len(actions):
            raise FileFormatError("The file's dynamics have states that are named twice, or none that is learnt.")
        return space

    def inputs(self, states: Tensor, actions: Tensor) -> Tensor:
        """z (..., D) of states (..., S) and actions (..., A)."""
        angles, plain = states[..., list(self.angles)], self._one_sign(states)[..., list(self.plain)]
        return torch.cat([plain, angles.sin(), angles.cos(), actions], -1)

    def _one_sign(self, states: Tensor) -> Tensor:
        """With quaternions whose real part is positive: q and −q are one orientation."""
        for k in self.kinematics:
            if k.turns:
                q = states[..., list(k.columns)]
                states = states.index_copy(-1, torch.tensor(k.columns, device=states.device), torch.where(q[..., :1] < 0, -q, q))
        return states

    def difference(self, states: np.ndarray, others: np.ndarray) -> np.ndarray:
        """states − others (..., S): of angles the shorter way, of quaternions with the sign that is nearer."""
        change = states - others
        for i in self.angles:
            change[..., i] = (change[..., i] + np.pi) % (2 * np.pi) - np.pi
        for k in self.kinematics:
            if k.turns:
                columns = list(k.columns)
                near = (states[..., columns] * others[..., columns]).sum(-1, keepdims=True) >= 0
                change[..., columns] = np.where(near, states[..., columns], -states[..., columns]) - others[..., columns]
        return change

    def outputs(self, states: np.ndarray, next_states: np.ndarray) -> np.ndarray:
        """What the regression learns (N, O)."""
        change = self.difference(next_states, states)  # recordings may jump from pi to −pi
        change[:, list(self.flags)] = next_states[:, list(self.flags)]
        return change[:, list(self.learnt)]

    def moved(self, states: Tensor, outputs: Tensor) -> Tensor:
        """The next states (..., S) where the regression gives outputs (..., O)."""
        kept = torch.ones(len(self.state_names), dtype=states.dtype, device=states.device)
        kept[list(self.flags)] = 0.0
        place = torch.eye(len(self.state_names), dtype=states.dtype, device=states.device)[list(self.learnt)]
        moved = kept * states + outputs @ place
        for k in self.kinematics:
            moved = moved.index_copy(-1, torch.tensor(k.columns, device=states.device), k(states, moved))
        return moved

    def input_moments(self, mean: Tensor, cov: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (n, D) and covariance (n, D, D) of z where x ~ N(mean, cov) and actions (n, A) are known, and cov(x, z) (n, S, D): in closed form.

        E[exp(i θ)] = exp(i mean − ½ variance), and products of sines and cosines are sums of those of θ ± θ'.
        """
        plain, angles = list(self.plain), list(self.angles)
        A = actions.shape[-1]
        if not angles:
            wide = torch.nn.functional.pad(cov, (0, A, 0, A))
            return torch.cat([mean, actions], -1), wide, wide[:, : mean.shape[-1]]
        own, var = cov[:, :, angles], cov[:, angles][:, :, angles]
        m, v = mean[:, angles], var.diagonal(dim1=-2, dim2=-1)
        shrunk = torch.exp(-0.5 * v)
        sine, cosine = shrunk * m.sin(), shrunk * m.cos()
        cross = torch.cat(
            [cov[:, :, plain], own * cosine.unsqueeze(-2), -own * sine.unsqueeze(-2), own.new_zeros(*own.shape[:2], A)], -1
        )
        rows = [cross[:, plain], *_circle_covariance(m, v, var, cross[:, angles], len(plain))]
        rows.append(cross.new_zeros(len(mean), A, cross.shape[-1]))
        return torch.cat([mean[:, plain], sine, cosine, actions], -1), torch.cat(rows, -2), cross

    def kinematic_noise(self, mean: Tensor) -> Tensor:
        """Covariance (n, S, S) of what the kinematics leave unexplained; the noise of a turn is across its quaternion."""
        S = mean.shape[-1]
        total = mean.new_zeros(len(mean), S, S)
        for k in self.kinematics:
            columns = torch.tensor(k.columns, device=mean.device)
            q = _unit(mean[:, columns])
            unit = torch.eye(len(columns), dtype=mean.dtype, device=mean.device)
            own = (
                0.25 * k.noise**2 * (unit - q.unsqueeze(-1) * q.unsqueeze(-2))
                if k.turns
                else k.noise**2 * unit.expand(len(mean), -1, -1)
            )
            place = torch.eye(S, dtype=mean.dtype, device=mean.device)[columns]
            total = total + place.mT @ own @ place
        return total

    def shaken(self, states: Tensor, generator: torch.Generator, rows: tuple[int, ...]) -> Tensor:
        """States (..., S) with that noise drawn, for rows (...) or what broadcasts to them, and made proper."""
        for k in self.kinematics:
            columns = torch.tensor(k.columns, device=states.device)
            shock = torch.randn(*rows, len(columns), generator=generator, dtype=states.dtype).to(states.device)
            shock = ((0.5 if k.turns else 1.0) * k.noise * shock).expand(*states.shape[:-1], -1)
            states = states.index_add(-1, columns, shock)
        return self.proper(states)

    def proper(self, states: Tensor) -> Tensor:
        """States (..., S) as they can be: quaternions of length one, flags between 0 and 1."""
        for k in self.kinematics:
            if k.turns:
                columns = torch.tensor(k.columns, device=states.device)
                states = states.index_copy(-1, columns, _unit(states[..., list(k.columns)]))
        if self.flags:
            flags = torch.tensor(self.flags, device=states.device)
            states = states.index_copy(-1, flags, states[..., list(self.flags)].clamp(0.0, 1.0))
        return states

    def affine_step(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """x' = A x + B f: A (S, S) and B (S, O)."""
        S, targets = len(self.state_names), len(self.learnt)
        unit, none = torch.eye(S, dtype=like.dtype, device=like.device), like.new_zeros
        return self.moved(unit, none(S, targets)).mT, self.moved(
            none(targets, S), torch.eye(targets, dtype=like.dtype, device=like.device)
        ).mT


def state_space(
    state_names: Sequence[str],
    action_names: Sequence[str],
    rows: Transitions,
    angles: Sequence[str] = (),
    flags: Sequence[str] = (),
    rates: Rates | None = None,
    dt: float | None = None,
) -> StateSpace:
    """The roles by name, checked against the rows, with the kinematics fitted to them."""
    names = tuple(state_names)
    turned, binary = (
        tuple(_place(names, name, what) for name in given) for given, what in ((angles, "angles"), (flags, "flags"))
    )
    for i in binary:
        if not np.isin(rows.next_states[:, i], (0.0, 1.0)).all():
            raise InputError(f"The flag {names[i]!r} must be 0 or 1 in every row. Leave it out of flags, or threshold it.")
    fitted = []
    for columns, of in (rates or {}).items():
        places = [tuple(_place(names, name, "rates") for name in _several(part)) for part in (columns, of)]
        if (len(places[0]), len(places[1])) not in _SHAPES:
            raise InputError(f"rates gives {columns!r} the rate {of!r}: a position has one, a quaternion of four columns three.")
        fitted.append(_fitted(Kinematics(places[0], places[1]), rows))
    space = StateSpace(names, tuple(action_names), turned, binary, tuple(fitted), dt)
    follow = [i for k in fitted for i in k.columns]
    clash = [i for k in fitted for i in k.rates if i in follow] + [i for i in follow if i in binary or follow.count(i) > 1]
    if clash or not space.learnt:
        raise InputError(
            f"{names[clash[0]]!r} has two roles." if clash else "Every state follows from another: nothing is left to learn."
        )
    return space


def _places(given: Sequence[int], count: int) -> tuple[int, ...]:
    places = tuple(int(i) for i in given)
    if len(set(places)) < len(places) or not all(0 <= i < count for i in places):
        raise FileFormatError(f"The file's dynamics name columns {places} of {count}.")
    return places


def _finite(given: float) -> float:
    if not abs(given) < 1e50:  # its square is a number too
        raise FileFormatError(f"The file's dynamics have a coefficient {given}.")
    return float(given)


def _several(name: str | Sequence[str]) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else tuple(name)


def _place(names: Sequence[str], name: str, argument: str) -> int:
    if name not in names:
        raise InputError(f"{argument} names {name!r}; the states are {', '.join(map(repr, names))}.")
    return names.index(name)


def _fitted(k: Kinematics, rows: Transitions) -> Kinematics:
    """With a and b by least squares; for a quaternion also the frame of its rates, whichever fits better."""
    rates = list(k.rates)
    before, after = rows.states[:, rates], rows.next_states[:, rates]
    A = np.stack([before.ravel(), after.ravel()], 1)
    here, there = rows.states[:, list(k.columns)], rows.next_states[:, list(k.columns)]
    if not k.turns:
        return Kinematics(k.columns, k.rates, *_least_squares(A, (there - here).ravel()))
    q, p = (_unit(torch.as_tensor(part)) for part in (here, there))
    inverse = q * torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=q.dtype)
    found = []
    for world in (False, True):
        turn = _logarithm(_product(p, inverse) if world else _product(inverse, p)).numpy()
        found.append(Kinematics(k.columns, k.rates, *_least_squares(A, turn.ravel()), world))
    return min(found, key=lambda one: one.noise)


def _least_squares(A: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Both coefficients, and the standard deviation of what they leave."""
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    return float(x[0]), float(x[1]), float(np.sqrt(np.square(A @ x - b).mean()))


def _circle_covariance(m: Tensor, v: Tensor, var: Tensor, cross: Tensor, plain: int) -> list[Tensor]:
    """Rows of cov(z, z) that belong to sines and to cosines, (n, angles, D) each; cross: cov(angles, z)."""
    s, c, shrunk = m.sin(), m.cos(), torch.exp(-0.5 * v)
    a, A = m.shape[-1], cross.shape[-1] - plain - 2 * m.shape[-1]
    log_both = -0.5 * (v.unsqueeze(-1) + v.unsqueeze(-2))
    # E[sin θ sin θ'] − E[sin θ] E[sin θ'] and so on, from cov(θ, θ')
    up, down = _shrunk_expm1(log_both, var), _shrunk_expm1(log_both, -var)
    ss, cc, sc = s.unsqueeze(-1) * s.unsqueeze(-2), c.unsqueeze(-1) * c.unsqueeze(-2), s.unsqueeze(-1) * c.unsqueeze(-2)
    minus_c, minus_s = cc + ss, sc - sc.mT  # cosine and sine of θ − θ'
    plus_c, plus_s = cc - ss, sc + sc.mT  # and of θ + θ'
    sines = 0.5 * (up * minus_c - down * plus_c)
    cosines = 0.5 * (up * minus_c + down * plus_c)
    mixed = 0.5 * (up * minus_s + down * plus_s)  # cov(sin θ, cos θ')
    scale_s, scale_c = (shrunk * c).unsqueeze(-1), (-shrunk * s).unsqueeze(-1)
    none = cross.new_zeros(len(m), a, A)
    straight = cross[..., :plain]
    return [
        torch.cat([scale_s * straight, sines, mixed, none], -1),
        torch.cat([scale_c * straight, mixed.mT, cosines, none], -1),
    ]


def _shrunk_expm1(log_scale: Tensor, x: Tensor) -> Tensor:
    """exp(log_scale) (exp(x) − 1): with all digits where x is small, and without overflow where it is large and the scale makes up for it."""
    small = torch.exp(log_scale) * torch.expm1(x.clamp(max=1.0))
    return torch.where(x > 1.0, torch.exp(log_scale + x) - torch.exp(log_scale), small)


def _product(p: Tensor, q: Tensor) -> Tensor:
    """Of quaternions (..., 4), real part first."""
    a, u, b, v = p[..., :1], p[..., 1:], q[..., :1], q[..., 1:]
    u, v = torch.broadcast_tensors(u, v)
    return torch.cat([a * b - (u * v).sum(-1, keepdim=True), a * v + b * u + torch.linalg.cross(u, v)], -1)


def _unit(q: Tensor) -> Tensor:
    return q / q.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def _exponential(turn: Tensor) -> Tensor:
    """The unit quaternion (..., 4) of a rotation vector (..., 3); smooth at zero."""
    half = 0.5 * turn
    square = half.square().sum(-1, keepdim=True)
    angle = square.clamp_min(1e-16).sqrt()
    return torch.cat([torch.cos(angle), half * torch.sin(angle) / angle], -1)


def _logarithm(q: Tensor) -> Tensor:
    """The rotation vector (..., 3) of a unit quaternion, the shorter way."""
    q = torch.where(q[..., :1] < 0, -q, q)
    sine = q[..., 1:].norm(dim=-1, keepdim=True)
    return (
        torch.where(sine > 1e-12, 2 * torch.atan2(sine, q[..., :1]) / sine.clamp_min(1e-12), torch.full_like(sine, 2.0))
        * q[..., 1:]
    )
