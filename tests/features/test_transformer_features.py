"""scikit-learn transformers as features."""

import copy

import numpy as np
import pytest
import torch
from sklearn import cross_decomposition, decomposition, manifold, preprocessing

from manifoldgp.errors import InputError
from manifoldgp.features import MLP, Chain, Concatenate, FixedLinear, Transformer
from manifoldgp.parameters import Layout, map_leaves


def bent_inputs(rows=80, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = 3 * torch.rand(rows, generator=g, dtype=torch.float64)
    noise = 0.05 * torch.randn((rows, 3), generator=g, dtype=torch.float64)
    return torch.stack([t * t.cos(), t * t.sin(), 1 + 0.3 * t**2], -1) + noise


def transform(features, X_train, X):
    bound = features.bind(X_train)
    drawn = Layout(bound.parameters(X_train)).draw(torch.Generator().manual_seed(0), 1)
    return bound(map_leaves(lambda v: v[0], drawn), X)


AFFINE = [
    decomposition.PCA(2),
    decomposition.FastICA(2, random_state=0, whiten="unit-variance"),
    decomposition.FactorAnalysis(2),
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
]
CURVED = [
    manifold.Isomap(n_neighbors=20, n_components=2),
    manifold.LocallyLinearEmbedding(n_neighbors=8, n_components=2, eigen_solver="dense"),
    decomposition.KernelPCA(2, kernel="rbf"),
    preprocessing.MinMaxScaler(clip=True),
    preprocessing.QuantileTransformer(n_quantiles=20),
    preprocessing.PolynomialFeatures(2),
    preprocessing.SplineTransformer(),
]


@pytest.mark.parametrize("transformer", AFFINE, ids=lambda t: type(t).__name__)
def test_affine_transformers_become_constants(transformer):
    X, X_new = bent_inputs(), 3 * bent_inputs(20, seed=1)
    bound = Transformer(transformer).bind(X)
    assert isinstance(bound, FixedLinear)
    expected = transformer.__class__(**transformer.get_params()).fit(X.numpy()).transform(X_new.numpy())
    np.testing.assert_allclose(transform(Transformer(transformer), X, X_new), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("transformer", CURVED, ids=repr)
def test_other_transformers_are_called(transformer):
    X, X_new = bent_inputs(), bent_inputs(20, seed=1)
    bound = Transformer(transformer).bind(X)
    assert isinstance(bound, Transformer)
    assert bound.fitted
    assert bound.parameters(X) == {}
    reference = transformer.__class__(**transformer.get_params()).fit(X.numpy())
    np.testing.assert_allclose(bound({}, X_new), reference.transform(X_new.numpy()), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(bound({}, X), reference.transform(X.numpy()), rtol=1e-9, atol=1e-9)
    batch = torch.stack([X_new, X_new + 0.01])
    np.testing.assert_allclose(bound({}, batch)[1], bound({}, batch[1]), rtol=1e-9, atol=1e-9)


def test_a_transform_that_bends_only_outside_the_training_inputs_is_not_called_affine():
    X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    bound = Transformer(preprocessing.MinMaxScaler(clip=True)).bind(X)
    assert isinstance(bound, Transformer)
    torch.testing.assert_close(bound({}, 2 * X[-1:]), torch.ones(1, 1, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_training_inputs_are_transformed_once():
    class Counting(preprocessing.PolynomialFeatures):
        calls = 0

        def transform(self, X):
            type(self).calls += 1
            return super().transform(X)

    X = bent_inputs()
    bound = Transformer(Counting(2)).bind(X)
    before = Counting.calls
    for _ in range(3):
        bound({}, X.clone())
    assert Counting.calls == before
    bound({}, X + 1)
    assert Counting.calls == before + 1


def test_the_given_transformer_stays_unfitted():
    isomap = manifold.Isomap(n_neighbors=20)
    before = copy.deepcopy(vars(isomap))
    Transformer(isomap).bind(bent_inputs())
    assert vars(isomap) == before


def test_a_transformer_fitted_elsewhere_is_taken_as_it_is():
    X, other = bent_inputs(), bent_inputs(seed=3) + 2
    isomap = manifold.Isomap(n_neighbors=20).fit(other.numpy())
    bound = Transformer(isomap, fitted=True).bind(X)
    assert bound == Transformer(isomap, fitted=True)
    assert bound != Transformer(manifold.Isomap(n_neighbors=20))
    np.testing.assert_allclose(bound({}, X), isomap.transform(X.numpy()), rtol=1e-12)


def test_gradients_through_a_curved_transformer_are_refused():
    X = bent_inputs()
    bound = Transformer(manifold.Isomap(n_neighbors=20)).bind(X)
    with pytest.raises(InputError, match="Isomap is not differentiable, and a gradient with respect to its inputs is needed"):
        bound({}, X.clone().requires_grad_())


def test_unfitted_features_say_what_to_do():
    X = bent_inputs()
    for use in (lambda f: f.parameters(X), lambda f: f({}, X)):
        with pytest.raises(InputError, match=r"not fitted. Call features.bind\(X\)"):
            use(Transformer(manifold.Isomap()))


def test_transformers_that_cannot_place_new_points_are_refused():
    with pytest.raises(InputError, match="TSNE has no transform method"):
        Transformer(manifold.TSNE())
    with pytest.raises(InputError, match="MDS has no transform method"):
        Concatenate(manifold.MDS())


def test_transformers_that_need_targets_are_refused():
    with pytest.raises(InputError, match="PLSRegression could not be fitted to inputs alone"):
        Transformer(cross_decomposition.PLSRegression(1)).bind(bent_inputs())


def test_a_transform_without_one_row_per_input_is_refused():
    class Summary:
        def fit(self, X):
            return self

        def transform(self, X):
            return X.mean(0)

    with pytest.raises(InputError, match=r"Summary\.transform must give one row of features per input"):
        Transformer(Summary(), fitted=True)({}, bent_inputs())


def test_equality_follows_class_and_parameters():
    assert Transformer(manifold.Isomap(n_neighbors=4)) == Transformer(manifold.Isomap(n_neighbors=4))
    assert Transformer(manifold.Isomap(n_neighbors=4)) != Transformer(manifold.Isomap(n_neighbors=5))
    assert Transformer(manifold.Isomap()) != Transformer(decomposition.PCA())


def test_composites_bind_their_parts_in_place():
    X = bent_inputs()
    chain = Chain(decomposition.PCA(2), manifold.Isomap(n_neighbors=20, n_components=1), MLP((4, 2))).bind(X)
    assert [type(part) for part in chain.parts] == [FixedLinear, Transformer, MLP]
    H = transform(Chain(decomposition.PCA(2), manifold.Isomap(n_neighbors=20, n_components=1)), X, X)
    scores = decomposition.PCA(2).fit_transform(X.numpy())
    expected = manifold.Isomap(n_neighbors=20, n_components=1).fit(scores).transform(scores)
    np.testing.assert_allclose(H.abs(), np.abs(expected), rtol=1e-6, atol=1e-6)
