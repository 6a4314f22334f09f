"""Kumaraswamy input warping."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifoldgp.errors import InputError
from manifoldgp.features import Kumaraswamy
from manifoldgp.parameters import Layout, LogNormal, map_leaves

X_TRAIN = torch.tensor([[-2.0, 10.0], [0.5, 14.0], [1.0, 11.0], [3.0, 30.0]], dtype=torch.float64)


def start(X=X_TRAIN, count=None, features=None):
    values = Layout((features or Kumaraswamy()).parameters(X)).draw(torch.Generator().manual_seed(0), count or 1)
    return values if count else map_leaves(lambda v: v[0], values)


def with_shapes(a, b, X=X_TRAIN):
    return start(X) | {"a": torch.tensor(a, dtype=torch.float64), "b": torch.tensor(b, dtype=torch.float64)}


def slow_warp(x, smallest, largest, a, b, margin=0.01):
    """The formula as it stands, with the slope at the ends by a difference quotient."""
    width = largest - smallest
    low, high = smallest - margin * width, largest + margin * width

    def inside(x):
        return low + (high - low) * (1 - (1 - ((x - low) / (high - low)) ** a) ** b)

    step = 1e-6 * width
    if x < smallest:
        return inside(smallest) + (x - smallest) * (inside(smallest + step) - inside(smallest - step)) / (2 * step)
    if x > largest:
        return inside(largest) + (x - largest) * (inside(largest + step) - inside(largest - step)) / (2 * step)
    return inside(x)


@settings(max_examples=60, deadline=None)
@given(a=st.floats(0.2, 5), b=st.floats(0.2, 5), t=st.floats(-0.5, 1.5))
def test_warping_matches_the_formula_inside_and_its_tangent_outside(a, b, t):
    X = torch.tensor([[-2.0 + 5.0 * t, 10.0 + 20.0 * t]], dtype=torch.float64)
    H = Kumaraswamy()(with_shapes([a, b], [b, a]), X)[0]
    assert float(H[0]) == pytest.approx(slow_warp(float(X[0, 0]), -2.0, 3.0, a, b), rel=1e-6, abs=1e-6)
    assert float(H[1]) == pytest.approx(slow_warp(float(X[0, 1]), 10.0, 30.0, b, a), rel=1e-6, abs=1e-6)


def test_shapes_of_one_are_the_identity_everywhere():
    X = torch.linspace(-50, 50, 101, dtype=torch.float64)[:, None].expand(-1, 2)
    torch.testing.assert_close(Kumaraswamy()(with_shapes([1.0, 1.0], [1.0, 1.0]), X), X, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("a", [0.01, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("b", [0.01, 0.5, 2.0, 30.0])
def test_warping_is_increasing_and_finite_for_extreme_shapes(a, b):
    x = torch.linspace(-4, 5, 400, dtype=torch.float64)
    X = torch.stack([x, x], -1).requires_grad_()
    values = {name: v.clone().requires_grad_() for name, v in with_shapes([a, a], [b, b]).items()}
    H = Kumaraswamy()(values, X)
    H.sum().backward()
    assert torch.isfinite(H).all()
    rise = H.detach()[1:, 0] - H.detach()[:-1, 0]
    assert (rise > 0).all() if 0.1 < a < 10 and 0.1 < b < 10 else (rise >= 0).all()  # 1 - tiny rounds to 1
    assert all(torch.isfinite(t.grad).all() for t in (X, values["a"], values["b"]))
    assert (X.grad >= 0).all()


def test_the_slope_is_continuous_at_the_ends_of_the_training_range():
    values = with_shapes([0.4, 2.0], [1.7, 0.6])
    for column, end in [(0, -2.0), (0, 3.0), (1, 10.0), (1, 30.0)]:
        X = X_TRAIN[:1].repeat(2, 1)
        X[:, column] = torch.tensor([end - 1e-7, end + 1e-7], dtype=torch.float64)
        X.requires_grad_()
        Kumaraswamy()(values, X).sum().backward()
        torch.testing.assert_close(X.grad[0, column], X.grad[1, column], rtol=1e-4, atol=0)


def test_starts_near_one_with_the_documented_prior():
    tree = Kumaraswamy().parameters(X_TRAIN)
    assert tree["a"].prior == tree["b"].prior == LogNormal(0.0, 0.75)
    assert tree["a"].positive
    assert tree["b"].positive
    drawn = start(count=2000)
    assert drawn["a"].log().std() == pytest.approx(0.2, rel=0.05)
    assert not torch.equal(drawn["a"], drawn["b"])
    assert start(count=2)["a"].shape == (2, 2)  # as many starts as inputs


def test_a_constant_input_keeps_a_finite_scale():
    X = X_TRAIN.clone()
    X[:, 1] = 7.0
    H = Kumaraswamy()(start(X), X)
    assert torch.isfinite(H).all()
    torch.testing.assert_close(start(X)["high"] - start(X)["low"], torch.tensor([5.1, 1.02]).double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("margin", [0.0, -0.1, float("nan"), None])
def test_the_margin_is_positive(margin):
    with pytest.raises(InputError, match="margin of Kumaraswamy must be a positive number"):
        Kumaraswamy(margin)
