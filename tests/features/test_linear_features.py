"""Identity, Linear, FixedLinear, PCA, RandomEmbedding."""

import numpy as np
import pytest
import torch
from sklearn import decomposition

from manifoldgp.errors import InputError
from manifoldgp.features import PCA, FixedLinear, Identity, Linear, RandomEmbedding
from manifoldgp.parameters import Layout, map_leaves


def correlated_inputs(rows=60, seed=0):
    g = torch.Generator().manual_seed(seed)
    mixing = torch.tensor([[3.0, 1.0, 0.0, 0.5], [0.0, 2.0, -1.0, 0.0], [0.0, 0.0, 1.0, 0.2], [0.0, 0.0, 0.0, 0.1]])
    return torch.randn((rows, 4), generator=g, dtype=torch.float64) @ mixing.double() + torch.tensor([1.0, -2.0, 0.0, 5.0])


def values_of(features, X):
    drawn = Layout(features.parameters(X)).draw(torch.Generator().manual_seed(0), 1)
    return map_leaves(lambda v: v[0], drawn)


def test_identity_has_no_parameters_and_returns_its_input():
    X = correlated_inputs()
    assert Identity().parameters(X) == {}
    assert Identity()({}, X) is X


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("q", [1, 3, 4])
def test_pca_matches_scikit_learn_up_to_sign(q, whiten):
    X, X_new = correlated_inputs(), correlated_inputs(20, seed=1)
    reference = decomposition.PCA(q, whiten=whiten, svd_solver="full").fit(X.numpy())
    features = PCA(q, whiten=whiten)
    values = values_of(features, X)
    H, expected = features(values, X_new).numpy(), reference.transform(X_new.numpy())
    signs = np.sign((H * expected).sum(0))
    np.testing.assert_allclose(H, expected * signs, rtol=1e-9, atol=1e-9)
    largest = values["matrix"].abs().argmax(0, keepdim=True)
    assert (values["matrix"].gather(0, largest) > 0).all()


def test_whitened_components_have_unit_variance_and_no_correlation():
    X = correlated_inputs()
    H = PCA(3)(values_of(PCA(3), X), X)
    torch.testing.assert_close(torch.cov(H.T), torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-9)


def test_pca_refuses_more_components_than_there_are():
    X = correlated_inputs()
    with pytest.raises(InputError, match=r"PCA\(q=5\) needs at least 5 rows and columns; the inputs have 60 rows and 4 columns"):
        PCA(5).parameters(X)
    with pytest.raises(InputError, match="the inputs have 2 rows"):
        PCA(3).parameters(X[:2])
    flat = torch.cat([X[:, :2], X[:, :1]], 1)
    with pytest.raises(InputError, match=r"vary in 2 directions only\. Lower q"):
        PCA(3).parameters(flat)
    assert PCA(3, whiten=False).parameters(flat)["matrix"].shape == (3, 3)


def test_random_embedding_depends_on_its_seed_alone():
    X = correlated_inputs()
    A = values_of(RandomEmbedding(2), X)["matrix"]
    assert torch.equal(A, values_of(RandomEmbedding(2), X[:5])["matrix"])
    assert not torch.equal(A, values_of(RandomEmbedding(2, seed=1), X)["matrix"])
    torch.testing.assert_close(RandomEmbedding(2)({"matrix": A}, X), X @ A, rtol=1e-12, atol=1e-12)
    assert values_of(RandomEmbedding(5000), X)["matrix"].std() == pytest.approx(1.0, rel=0.02)


def test_embeddings_are_constants_and_linear_is_not():
    X = correlated_inputs()
    for features in (PCA(2), RandomEmbedding(2), FixedLinear(torch.ones(4, 1))):
        layout = Layout(features.parameters(X))
        assert layout.size == 0
        assert layout.parameters
    assert Layout(Linear(2).parameters(X)).names == ["weight"]
    assert Layout(Linear(2, bias=True).parameters(X)).names == ["weight", "bias"]


def test_linear_starts_with_features_of_unit_variance():
    X = torch.randn((500, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = Layout(Linear(3).parameters(X)).draw(torch.Generator().manual_seed(1), 300)
    assert Linear(3)(values, X).std(-2).square().mean() == pytest.approx(1.0, rel=0.1)


def test_fixed_linear_takes_any_array_and_computes_it():
    X = correlated_inputs()
    A, b = np.arange(8.0).reshape(4, 2), np.array([1.0, -1.0])
    features = FixedLinear(A, b)
    assert features == FixedLinear(torch.from_numpy(A), [1.0, -1.0]) == FixedLinear(**vars(features))
    np.testing.assert_allclose(features(values_of(features, X), X), X.numpy() @ A + b, rtol=1e-12)
    assert FixedLinear(A).offset == (0.0, 0.0)


@pytest.mark.parametrize(
    ("matrix", "offset", "message"),
    [
        ([1.0, 2.0], None, r"must be \(D, Q\), got shape \(2,\)"),
        ([[1.0, 2.0]], [1.0], r"offset of FixedLinear must be \(2,\)"),
        ([[1.0, float("nan")]], None, "not finite"),
        ([["a"]], None, "array of numbers"),
    ],
)
def test_fixed_linear_refuses_what_is_no_matrix(matrix, offset, message):
    with pytest.raises(InputError, match=message):
        FixedLinear(matrix, offset)


def test_fixed_linear_refuses_inputs_of_another_width():
    with pytest.raises(InputError, match="2 rows, and the inputs have 4 columns"):
        FixedLinear([[1.0], [2.0]]).parameters(correlated_inputs())


@pytest.mark.parametrize("make", [Linear, PCA, RandomEmbedding])
@pytest.mark.parametrize("q", [0, -1, 1.5, "two", None])
def test_the_number_of_features_is_a_positive_integer(make, q):
    with pytest.raises(InputError, match=f"of {make.__name__} must be a positive integer"):
        make(q)


def test_a_seed_is_an_integer():
    with pytest.raises(InputError, match="must be an integer, got 'x'"):
        RandomEmbedding(2, seed="x")
