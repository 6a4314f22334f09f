"""Quick draws of plain GPs: their moments are those of the posterior, and their slopes those of finite differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from manifoldgp import GPRegressor
from manifoldgp.dynamics import DynamicsModel, Trajectories
from manifoldgp.inference.gaussian_draws import GaussianDraws


@pytest.fixture(scope="module")
def model() -> DynamicsModel:
    rng = np.random.default_rng(0)
    x, u = rng.uniform(-2, 2, (40, 2)), rng.uniform(-1, 1, (40, 1))
    after = x + 0.1 * np.stack([x[:, 1], np.sin(x[:, 0]) + u[:, 0]], 1) + 0.01 * rng.standard_normal((40, 2))
    runs = [np.stack(pair) for pair in zip(x, after, strict=True)]
    recorded = Trajectories.from_arrays(
        runs, [a[None] for a in u], dt=0.1, state_names=["angle", "rate"], action_names=["torque"]
    )
    return DynamicsModel(GPRegressor(restarts=1), angles=["angle"]).fit(recorded)


def test_draws_have_the_moments_of_the_posterior_near_the_data_and_far_from_them(model):
    z = model.space_.inputs(
        torch.tensor([[0.3, 0.2], [1.9, -1.5], [0.0, 9.0]], dtype=torch.float64),
        torch.tensor([[0.1], [0.9], [4.0]], dtype=torch.float64),
    )
    count = 4000
    draws, noise = model.drawn_functions(count, 64, 0)
    assert isinstance(draws, GaussianDraws)
    values = draws(z.expand(count, -1, -1))
    mean, std = model.regressor_.predict(pd.DataFrame(z.numpy(), columns=model.space_.input_names), return_std=True)
    assert noise.shape == (count, 2)
    assert np.allclose(values.mean(0), mean, atol=5 / count**0.5 * std.max())
    assert np.allclose((values.var(0) + noise[0] ** 2).sqrt(), std, rtol=0.08)


def test_the_same_function_has_the_same_values_again_and_its_slopes_are_right(model):
    draws, _ = model.drawn_functions(3, 16, 1)
    z = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.equal(draws(z), draws(z))
    assert torch.autograd.gradcheck(draws, (z,))
    assert (draws(z[:1].expand(3, -1, -1)).std(0) > 0).all()
