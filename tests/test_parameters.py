"""Named parameters to flat theta and back; priors against SciPy; refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from manifoldgp.errors import InputError
from manifoldgp.parameters import (
    Layout,
    LogNormal,
    Normal,
    Parameter,
    StudentT,
    constant_law,
    leaves,
    log_normal_law,
    nest,
    normal_law,
    repeated,
    with_priors,
)


def example_tree(prior_of=lambda name: None):
    ones = torch.ones(2, dtype=torch.float64)
    return {
        "features": {
            "0": {"weight": Parameter((3, 2), normal_law((3, 2)), prior=prior_of("weight"))},
            "matrix": Parameter((2, 2), constant_law(torch.eye(2, dtype=torch.float64)), trainable=False),
        },
        "kernel": {
            "lengthscale": Parameter((2,), log_normal_law(ones, 0.5), positive=True, prior=prior_of("lengthscale")),
            "variance": Parameter((), log_normal_law(ones[0], 0.5), positive=True, prior=prior_of("variance")),
        },
    }


@given(st.integers(1, 4))
def test_flatten_inverts_unflatten_for_any_batch(count):
    layout = Layout(example_tree())
    values = layout.draw(torch.Generator().manual_seed(count), count)
    theta = layout.flatten(values)
    assert theta.shape == (count, layout.size) == (count, 9)
    back = dict(leaves(layout.unflatten(theta, layout.constants(values))))
    for name, value in leaves(values):
        torch.testing.assert_close(back[name], value)


def test_positive_parameters_are_exponentials_and_constants_are_not_in_theta():
    layout = Layout(example_tree())
    values = layout.unflatten(torch.zeros(9, dtype=torch.float64), {})
    assert dict(leaves(values)).keys() == {"features.0.weight", "kernel.lengthscale", "kernel.variance"}
    assert torch.equal(values["kernel"]["lengthscale"], torch.ones(2, dtype=torch.float64))
    assert layout.slices["kernel.variance"] == slice(8, 9)


def test_log_prior_is_the_density():
    priors = {"weight": StudentT(3.0, 0.5, 2.0), "lengthscale": LogNormal(0.3, 0.7), "variance": Normal(1.0, 0.4)}
    layout = Layout(example_tree(priors.get))
    theta = torch.linspace(-1, 1, 18, dtype=torch.float64).reshape(2, 9)
    for row, value in zip(theta.numpy(), layout.negative_log_prior(theta), strict=True):
        expected = stats.t(3.0, 0.5, 2.0).logpdf(row[:6]).sum() + stats.norm(0.3, 0.7).logpdf(row[6:8]).sum()
        expected += stats.norm(1.0, 0.4).logpdf(np.exp(row[8]))
        assert float(value) == pytest.approx(-expected, rel=1e-12)
    assert torch.autograd.gradcheck(layout.negative_log_prior, theta.requires_grad_())


def test_flat_priors_cost_nothing():
    layout = Layout(example_tree())
    assert not layout.has_priors
    assert torch.equal(layout.negative_log_prior(torch.ones(2, 9)), torch.zeros(2))


def test_patterns_put_priors_on_what_they_match():
    tree = with_priors(example_tree(), {"features.*": Normal(0.0, 3.0), "kernel.variance": LogNormal()})
    named = dict(leaves(tree))
    assert named["features.0.weight"].prior == Normal(0.0, 3.0)
    assert named["kernel.lengthscale"].prior is None
    with pytest.raises(InputError, match="No trainable parameter matches the prior's pattern 'kernel.period'"):
        with_priors(example_tree(), {"kernel.period": Normal()})
    with pytest.raises(InputError, match="LogNormal prior needs a positive parameter"):
        with_priors(example_tree(), {"features.0.weight": LogNormal()})


def test_laws_follow_the_generator_and_their_centres():
    centres = torch.tensor([[1.0, 100.0], [10.0, 1000.0]], dtype=torch.float64)
    drawn = log_normal_law(centres, 0.01, per_start=True)(torch.Generator().manual_seed(0), 2)
    torch.testing.assert_close(drawn, centres, rtol=0.05, atol=0.0)
    again = log_normal_law(centres, 0.01, per_start=True)(torch.Generator().manual_seed(0), 2)
    assert torch.equal(drawn, again)
    shared = log_normal_law(centres[0], 0.01)(torch.Generator().manual_seed(0), 2)
    torch.testing.assert_close(shared, centres[0].expand(2, 2), rtol=0.05, atol=0.0)


def test_repeated_draws_independent_values_for_each_output():
    parameter = repeated(Parameter((3,), normal_law((3,))), 4)
    drawn = parameter.initial(torch.Generator().manual_seed(0), 5)
    assert drawn.shape == (5, 4, 3) == (5, *parameter.shape)
    assert len(torch.unique(drawn)) == 60


def test_nest_inverts_leaves():
    tree = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert nest(dict(leaves(tree))) == tree
