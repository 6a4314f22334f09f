"""A mixture of few members in place of many, and few points in place of all rows (`few_points`), where memory and time are short; what is lost is said in nats.

The whole mixture p predicts some training rows, each left out; a smaller one, q, is chosen to lose little of

    KL(p || q) = E_p[log p(y) − log q(y)],   averaged over these rows,

which no row's own y enters, and is held against the tolerance at other training rows. Members are added one by one, each time the one whose weight would lower KL fastest; then all weights of q are
found anew by EM, which for given members reaches the least KL there is. Where weights follow how sure members are, by factors g_s(x) in a share a, they still do in q:

    q(y|x) = (1 − a) Σ_s w_s p_s(y|x) + a Σ_s w_s g_s(x) p_s(y|x) / Σ_s w_s g_s(x),

and steps that lower KL each time divide those of EM by E[q_1 + q_2 g_s / Σ w g], q_1 and q_2 being the shares of q that its two parts have at a point.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from manifoldgp._system.plain_text import digits
from manifoldgp._system.threads import one_thread
from manifoldgp.data.inputs import positive_number, whole_number
from manifoldgp.estimators.few_points import FewPoints, PointsLoss, compressible, with_few_points
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.mixtures import Predictive

_DRAWS = 64, 512
"""Points of the whole mixture at each row, at least and at most. Gauss-Hermite nodes of its components miss what narrow copies of a member bring: all copies share the middle node."""

_AT_ALL_ROWS = 20_000
"""Points at all rows together: few rows have more of them each."""

_PHASES = 0.6180339887498949, 0.7548776662466927, 0.5698402909980532
"""Irrational steps by which points are spread evenly: from point to point, and from row to row in either direction (Kronecker sequences)."""

_EVALUATIONS = 10_000_000
"""Densities of components at points, at most; fewer rows are looked at where there are many components."""

_SMALLEST = -500.0
"""Logarithm of the smallest ratio of densities: a member that excludes what others predict loses much, but a number."""

_ROWS = 16, 200
_EM_ITERATIONS, _EM_AT_FIRST = 300, 20
"""Steps of EM, and those by which members alone are compared: the weights of one member's few components are nearly found by then."""


@dataclass(frozen=True)
class Loss:
    """What a distilled mixture has left out. nats: KL a row, by leaving out members. points: what few points lose beyond that, None where there are none."""

    kept: int
    members: int
    nats: float
    rows: int
    points: PointsLoss | None = None


@dataclass(frozen=True)
class Distilled:
    """A mixture of fewer members, the few points of each member of each block (None: as it is), and what was lost."""

    ensemble: Ensemble
    few: list[list[FewPoints | None]] | None
    loss: Loss


@dataclass(frozen=True)
class _Points:
    """Where densities are compared. density (S, P): of each component, relative to the whole mixture's; weight (P,): of the points, together 1.

    member (S,): which member a component belongs to. sure (S, n): factors g that weights follow at each of n rows in a share of the mixture, None where they follow nothing; points then
    go through all rows again and again.
    """

    density: np.ndarray
    weight: np.ndarray
    member: np.ndarray
    sure: np.ndarray | None = None
    share: float = 0.0

    def nats(self, w: np.ndarray) -> float:
        """KL of the mixture with weights w (S,)."""
        return float(-(self.weight @ np.log(self._mixture(w))))

    def pull(self, w: np.ndarray) -> np.ndarray:
        """E_p[p_s / q] (S,): above one where more weight of a component lowers KL."""
        of_points = self.weight / self._mixture(w)
        if self.sure is None:
            return self.density @ of_points
        at_rows = np.einsum("stn,tn->sn", self._by_row, of_points.reshape(self._by_row.shape[1:]))
        following = self.sure / (w @ self.sure)
        same, parts = w @ at_rows.sum(1), w @ (following * at_rows)  # of q's two parts: in all, and at each row
        gained = (1.0 - self.share) * at_rows.sum(1) + self.share * (following * at_rows).sum(1)
        return gained / ((1.0 - self.share) * same + self.share * (following @ parts))

    def _mixture(self, w: np.ndarray) -> np.ndarray:
        """The density (P,) of the mixture with weights w (S,)."""
        if self.sure is None:
            return w @ self.density
        at_rows = w[:, None] * (1.0 - self.share + self.share * self.sure / (w @ self.sure))
        return np.einsum("sn,stn->tn", at_rows, self._by_row).ravel()

    @property
    def _by_row(self) -> np.ndarray:
        """Densities (S, P / n, n), row by row."""
        assert self.sure is not None
        return self.density.reshape(len(self.density), -1, self.sure.shape[1])

    def only(self, inside: np.ndarray) -> _Points:
        """Those of some components."""
        return replace(self, density=self.density[inside], sure=None if self.sure is None else self.sure[inside])

    def refined(self, w: np.ndarray, iterations: int = _EM_ITERATIONS) -> np.ndarray:
        """EM: the least KL among mixtures of the components that have weight; the others stay without, so that only the former are computed."""
        inside = np.flatnonzero(w)
        own, part = self.only(inside), w[inside]
        for _ in range(iterations):
            updated = part * own.pull(part)
            moved = np.abs(updated - part).max()
            part = updated / updated.sum()
            if moved < 1e-7:
                break
        refined = np.zeros_like(w)
        refined[inside] = part
        return refined


def distilled(
    ensembles: Sequence[Ensemble],
    max_members: int | None,
    tolerance: float | None,
    seconds: float = math.inf,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Distilled]:
    """Each ensemble with at most ``max_members`` members; or with as few members and points as lose at most ``tolerance`` nats a row, half of them by members.

    seconds: of processor time for each ensemble, so that a busy machine leaves out no more and no less; members that are not weighed by then stay, and keep all their rows.
    stopped: whether somebody wants it to end before.
    """
    most = None if max_members is None else whole_number(max_members, "max_members")
    lost = None if tolerance is None else positive_number(tolerance, "tolerance")
    return [_distilled(ensemble, most, lost, after(seconds, stopped)) for ensemble in ensembles]


def after(seconds: float, stopped: Callable[[], bool] = lambda: False) -> Callable[[], bool]:
    """A question that is answered with yes once this thread has had so many seconds of a processor, or has been stopped. What it waits for others does not count."""
    end = time.thread_time() + seconds
    return lambda: stopped() or time.thread_time() >= end


def in_words(losses: Sequence[Loss]) -> str:
    """What was left out, as a sentence or two."""
    kept, members = (sum(getattr(loss, name) for loss in losses) for name in ("kept", "members"))
    worst = max(losses, key=lambda loss: loss.nats)
    most = "" if len(losses) == 1 else " at most, of all targets"
    said = f"Distilled: {kept} of {members} members; {worst.nats:.2g} nats lost a row{most} (KL at {worst.rows} training rows, each left out)."
    points = [loss.points for loss in losses if loss.points is not None]
    if not points:
        return said
    nats, mean, std = (max(getattr(p, name) for p in points) for name in ("nats", "mean", "std"))
    few = sum(p.compressed for p in points)
    return (
        f"{said} {few} of these {'goes' if few == 1 else 'go'} through few points in place of all rows: {nats:.2g} nats lost a row{most}; means differ by up to "
        f"{digits(100 * mean, 2)} % of the standard deviation, and that by up to {digits(100 * std, 2)} % (at {points[0].rows} rows beside the training rows)."
    )


def _distilled(ensemble: Ensemble, most: int | None, tolerance: float | None, time_is_up: Callable[[], bool]) -> Distilled:
    if tolerance is None or not compressible(ensemble):
        smaller, loss = _distil(ensemble, most, tolerance or 0.0, time_is_up)
        return Distilled(smaller, None, loss)
    smaller, loss = _distil(ensemble, most, 0.5 * tolerance, time_is_up)
    few, of_points = with_few_points(smaller, max(tolerance - loss.nats, 0.5 * tolerance), time_is_up)
    return Distilled(smaller, few, replace(loss, points=of_points if of_points.compressed else None))


def _distil(ensemble: Ensemble, most: int | None, tolerance: float, time_is_up: Callable[[], bool]) -> tuple[Ensemble, Loss]:
    """Fewer members; the whole ensemble once time is up."""
    weights = torch.cat([w.reshape(-1) for w in ensemble.log_weights]).exp().cpu().numpy()
    used = np.flatnonzero(weights > 0)
    n = int(np.clip(_EVALUATIONS // (len(used) * _DRAWS[0]), *_ROWS))
    rows = np.unique(np.linspace(0, len(ensemble.blocks[0].data.y) - 1, 2 * n).astype(int))
    chosen_by, told_by = _halves(rows)
    points = _points(ensemble, chosen_by, used)
    others = points if told_by is chosen_by else _points(ensemble, told_by, used)
    count = len(np.unique(points.member))
    with (
        one_thread()
    ):  # small products, a hundred times: beside other work two threads wait for each other a hundred times as long
        w = _selected(points, others, count if most is None else min(most, count), tolerance, time_is_up)
    kept = count if w is None else len(np.unique(points.member[w > 0]))
    if w is None or kept == count:  # nothing to leave out, and no reason to weigh anew
        return ensemble, Loss(count, count, 0.0, len(told_by))
    logs = np.full(len(weights), -np.inf)
    with np.errstate(divide="ignore"):
        logs[used] = np.log(w)
    sizes = [log.numel() for log in ensemble.log_weights]
    parts = np.split(logs, np.cumsum(sizes)[:-1])
    log_weights = [
        torch.from_numpy(part).reshape(log.shape).to(log) for part, log in zip(parts, ensemble.log_weights, strict=True)
    ]
    return replace(ensemble, log_weights=log_weights), Loss(kept, count, max(0.0, others.nats(w)), len(told_by))


def _halves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows to choose members and weights by, and others that tell what is lost; the same where they are few."""
    return (rows, rows) if len(rows) < 2 * _ROWS[0] else (rows[::2], rows[1::2])


def _members(ensemble: Ensemble) -> np.ndarray:
    """The member of each component, in the order of the mixture: block by block, factor by factor."""
    found, first = [], 0
    for block, log_weights in zip(ensemble.blocks, ensemble.log_weights, strict=True):
        found += [np.arange(first, first + block.members)] * len(log_weights)
        first += block.members
    return np.concatenate(found)


def _sure(ensemble: Ensemble, certainty: Certainty, p: Predictive) -> np.ndarray:
    """Factors (S, n) that the weights of the components of p follow: (u_s / v_s)^β, beside that of the surest."""
    factors, members = ensemble.variance_factors, [block.members for block in ensemble.blocks]
    usual = torch.cat([own for own in certainty.usual for _ in factors])
    factor = torch.tensor([f for count in members for f in factors for _ in range(count)]).to(usual)
    sure = certainty.exponent * ((usual + factor.log())[:, None] - p.variances.log())
    return (sure - sure.amax(0)).clamp_min(_SMALLEST).exp().cpu().numpy()


def _points(ensemble: Ensemble, rows: np.ndarray, used: np.ndarray) -> _Points:
    """Points of the mixture at every row, which is left out, with the densities of all components there."""
    p, certainty = ensemble.left_out(rows), ensemble.followed
    log_weights = p.log_weights.reshape(len(p.means), -1)[used, None]
    log_densities = []
    for t in _drawn(p):
        z, log_slope = p.warp.forward(t)
        log_densities.append((-0.5 * ((z - p.means) ** 2 / p.variances + p.variances.log()) + log_slope)[used])
    L = torch.stack(log_densities, 1)
    ratio = (L - torch.logsumexp(log_weights + L, 0)).clamp_min(_SMALLEST).exp().flatten(1).cpu().numpy()
    points = _Points(ratio, np.full(ratio.shape[1], 1.0 / ratio.shape[1]), _members(ensemble)[used])
    return points if certainty is None else replace(points, sure=_sure(ensemble, certainty, p)[used], share=certainty.share)


def _drawn(p: Predictive) -> torch.Tensor:
    """Points t (T, n) that are spread over p as evenly as so many can be: over its components, and inside each."""
    S, n = p.means.shape
    T = int(np.clip(min(_AT_ALL_ROWS // n, _EVALUATIONS // (S * n)), *_DRAWS))
    k, i = (torch.arange(count, dtype=p.means.dtype, device=p.means.device) for count in (T, n))
    step, between, inside = _PHASES
    which = (k[:, None] + (i * between + 0.5).frac()) / T
    where = (k[:, None] * step + i * inside + 0.5).frac().clamp(1e-9, 1.0 - 1e-9)
    upto = p.log_weights.exp().reshape(S, -1).expand(S, n).cumsum(0).T.contiguous()
    chosen = torch.searchsorted(upto, (which.T * upto[:, -1:]).contiguous()).clamp_max(S - 1).T
    z = p.means.gather(0, chosen) + p.variances.gather(0, chosen).sqrt() * torch.special.ndtri(where)
    if p.warp.trivial:
        return z
    t = torch.empty_like(z)
    for s in chosen.unique().tolist():
        t[chosen == s] = p.warp.inverse_of(s, z[chosen == s])
    return t


def _selected(points: _Points, others: _Points, most: int, tolerance: float, time_is_up: Callable[[], bool]) -> np.ndarray | None:
    """Weights (S,) of a mixture of few members, chosen by ``points`` until it is good enough at ``others``; None where time was up before."""
    w = _first(points)
    while others.nats(w) > tolerance and len(np.unique(points.member[w > 0])) < most:
        if time_is_up():
            return None
        inside = np.isin(points.member, points.member[w > 0])
        best = points.member[np.argmax(np.where(inside, -np.inf, points.pull(w)))]
        own = points.member == best
        w = points.refined(np.where(own, 0.1 / own.sum(), 0.9 * w))
        w[w < 1e-9] = 0.0  # a component that others have made needless, unless it is the member's last
        w = w / w.sum()
    return w


def _first(points: _Points) -> np.ndarray:
    """The weights of the member that stands for the whole mixture best."""
    alone = [points.refined((points.member == m) / (points.member == m).sum(), _EM_AT_FIRST) for m in np.unique(points.member)]
    return points.refined(min(alone, key=points.nats))
