"""Peak memory, measured in a process of its own: what training keeps, and what predictions and draws need on top."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc, as Linux has it")

_MEASURE = """
import json
import torch
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.features import MLP
from manifoldgp.kernels import Matern52, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.inference.exact_posterior import condition

torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)
results = {}

def normal(*shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)

def drawn(rows, features, members=1, kernel=SquaredExponential()):
    data, model = Data(normal(rows, 3), normal(rows)), Model(features, kernel)
    layout, values = model.draw(data, generator, members)
    values["noise"]["scale"][:] = 0.1
    return model, data, layout, values

def status(name):
    # Not getrusage: its peak is inherited from the process that started this one.
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(name))

def measure(name, work, *arguments):
    '''Peak while ``work`` runs minus what is in use before, in bytes. An earlier, higher peak can only make it larger.'''
    work(*(a[:50] if isinstance(a, torch.Tensor) else a for a in arguments))  # code and thread pools are loaded
    before = status("VmRSS")
    work(*arguments)
    results[name] = status("VmHWM") - before

def ensemble(*arguments):
    model, data, _, values = drawn(*arguments)
    members = len(values["noise"]["scale"])
    return Ensemble([condition(model, values, data)], [torch.full((1, members), 1.0 / members, dtype=torch.float64).log()])

fitted = ensemble(300, MLP((2,)), 2)
measure("draws", lambda X: fitted.sample(X, 500, generator), normal(300, 3))
fitted = ensemble(20, MLP((32, 2)))
measure("predictions", lambda X: fitted.predict(X), normal(1_000_000, 3))

def conditioned(X):
    condition(model, values, Data(X, X[:, 0].contiguous()))

def evaluated(X):
    theta = layout.flatten(values).requires_grad_()
    value = model.nlml(layout.unflatten(theta, {}), Data(X, X[:, 0].contiguous()))
    torch.autograd.grad(value.sum(), theta)

model, data, layout, values = drawn(%(N)d, MLP((4, 2)))
measure("evaluation", evaluated, data.X)
measure("conditioning", conditioned, data.X)
model, data, layout, values = drawn(%(N)d, MLP((4, 2)), 1, Matern52())
measure("evaluation with a Matern kernel", evaluated, data.X)
print(json.dumps(results))
"""

N = 2000


@pytest.fixture(scope="module")
def grown():
    """Bytes by which the peak grew, by name of the work."""
    # Large blocks go back to the system at once, so that each measurement starts from what is really in use.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", _MEASURE % {"N": N}]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_evaluation_keeps_at_most_three_matrices(grown):
    assert 1.5 < grown["evaluation"] / (8 * N * N) < 3.3
    assert 1.5 < grown["evaluation with a Matern kernel"] / (8 * N * N) < 4.3  # the slope is one more


def test_conditioning_needs_no_more_than_training(grown):
    assert 1.5 < grown["conditioning"] / (8 * N * N) < 3.3


def test_a_million_rows_are_predicted_in_bounded_memory(grown):
    # Means and variances are 16 MB, twice while they are put together; a chunk works in 32 MB and a few temporaries of that size.
    assert 16e6 < grown["predictions"] < 200e6


def test_draws_share_the_factors_of_their_members(grown):
    assert grown["draws"] < 60e6  # a 300 x 300 matrix for each of 500 draws would take 360 MB
