"""Additive kernels: sums over sets of inputs, blocks, memory, and what they are good for."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import torch

from manifoldgp import GPRegressor
from manifoldgp.errors import InputError
from manifoldgp.kernels import Additive, OrthogonalAdditive, SquaredExponential, _polynomials
from manifoldgp.model import Data, Model
from manifoldgp.parameters import first_of
from manifoldgp.training.objective import TrainingObjective

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("D", [1, 2, 6])
def test_orders_beyond_the_number_of_features_are_left_out(D):
    H = torch.from_numpy(RNG.normal(size=(5, D)))
    for kernel, constant in ((Additive(), 0), (OrthogonalAdditive(), 1)):
        assert kernel.parameters(H)["variance"].shape == (min(4, D) + constant,)


def test_polynomials_of_many_inputs_are_the_sums_over_sets():
    z = torch.from_numpy(RNG.uniform(-1, 1, size=(9, 1, 2, 3)))
    room = _polynomials.Room()
    e = room.take("e", 5, 1, 2, 3)
    _polynomials.polynomials(_polynomials.Stack(z, z.unbind()), e)
    for r in range(1, 6):
        expected = sum(torch.stack([z[d] for d in chosen]).prod(0) for chosen in combinations(range(9), r))
        torch.testing.assert_close(e.each[r - 1], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kernel", [Additive("matern32", orders=2), OrthogonalAdditive(orders=3)], ids=repr)
@pytest.mark.parametrize("block", [1, 7, 30])
def test_blocks_change_nothing(kernel, block, monkeypatch):
    H, G, W = (torch.from_numpy(RNG.normal(size=shape)) for shape in ((2, 7, 4), (2, 5, 4), (2, 7, 5)))

    def results():
        inputs = [H.clone().requires_grad_(), G.clone().requires_grad_()]
        values = {name: p.initial(torch.Generator().manual_seed(0), 2) for name, p in kernel.parameters(H).items()}
        leaves = [*inputs, *(leaf.requires_grad_() for leaf in values.values())]
        K = kernel.cross(values, *inputs)
        return K, *torch.autograd.grad(K, leaves, W)

    whole = results()
    monkeypatch.setattr(_polynomials, "BLOCK", block)
    for a, b in zip(results(), whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


def test_parts_of_the_orthogonal_kernel_have_zero_mean_under_the_normal_law():
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = torch.from_numpy(weights / weights.sum())
    h, g = torch.from_numpy(nodes)[:, None], torch.tensor([[-1.3], [0.4]], dtype=torch.float64)
    values = {"variance": torch.tensor([0.0, 1.0], dtype=torch.float64), "lengthscale": torch.tensor([0.8], dtype=torch.float64)}
    K = OrthogonalAdditive(orders=1).cross(values, h, g)
    torch.testing.assert_close(weights @ K, torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-10)


def test_wrong_settings_are_refused():
    with pytest.raises(InputError, match="base must be one of 'se', 'matern12'"):
        Additive("rq")
    with pytest.raises(InputError, match="at least 1; got 0"):
        OrthogonalAdditive(orders=0)


def test_an_evaluation_takes_little_more_memory_than_one_of_the_squared_exponential():
    N, D, peaks = 600, 8, []
    data = Data(torch.from_numpy(RNG.normal(size=(N, D))), torch.from_numpy(RNG.normal(size=N)))
    for kernel in (SquaredExponential(), Additive()):
        model = Model(kernel=kernel)
        layout, drawn = model.draw(data, torch.Generator().manual_seed(0), 1)
        objective = TrainingObjective(model, layout, first_of(layout.constants(drawn)), data)
        tracemalloc.start()
        objective(layout.flatten(drawn).numpy(), np.array([0]))
        peaks.append(tracemalloc.get_traced_memory()[1] / (8 * N * N))
        tracemalloc.stop()
        room = getattr(next(iter(objective._closed_form._rooms[0]._kept.values()))._pairs, "_room", None)
        if room is not None:  # PyTorch's memory, which tracemalloc does not see
            peaks[-1] += sum(part.numel() for part in room._parts.values()) / N**2
    assert peaks[1] - peaks[0] < 4.0


def test_an_additive_function_is_found_where_a_product_kernel_needs_more_rows():
    X = RNG.uniform(-2, 2, size=(160, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + np.cos(3 * X[:, 2]) + 0.05 * RNG.normal(size=160)
    train, test = slice(0, 80), slice(80, None)
    error = {
        kernel: float(np.sqrt(np.mean((GPRegressor(kernel, restarts=2).fit(X[train], y[train]).predict(X[test]) - y[test]) ** 2)))
        for kernel in ("se", "additive", "oak")
    }
    assert max(error["additive"], error["oak"]) < 0.5 * error["se"]
