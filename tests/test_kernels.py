"""Every kernel against its double-loop reference, and a list of properties that all kernels share."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from manifoldgp.errors import InputError
from manifoldgp.kernels import (
    Additive,
    ChangePoint,
    Constant,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    OrthogonalAdditive,
    Periodic,
    Product,
    RationalQuadratic,
    SpectralMixture,
    SquaredExponential,
    Sum,
    Switch,
    _radial,
    as_kernel,
)
from manifoldgp.parameters import Layout, leaves, map_leaves, nest
from reference import kernel_matrix

KERNELS = {
    "se": SquaredExponential(),
    "se-isotropic": SquaredExponential(ard=False),
    "se-unit": SquaredExponential(amplitude=False),
    "se-unscaled": SquaredExponential(scaled=False),
    "se-one-feature": SquaredExponential(dims=(1,)),
    "matern12": Matern12(),
    "matern32": Matern32(),
    "matern32-unit": Matern32(amplitude=False),
    "matern52": Matern52(),
    "matern52-bare": Matern52(amplitude=False, scaled=False),
    "matern52-unit-isotropic": Matern52(ard=False, amplitude=False),
    "rq": RationalQuadratic(),
    "rq-unit-isotropic": RationalQuadratic(ard=False, amplitude=False),
    "nn": NeuralNetwork(),
    "nn-unit-isotropic": NeuralNetwork(ard=False, amplitude=False),
    "periodic": Periodic(),
    "periodic-unit-isotropic": Periodic(ard=False, amplitude=False),
    "periodic-centred": Periodic(centred=True),
    "periodic-centred-unit-isotropic": Periodic(ard=False, amplitude=False, centred=True),
    "sm": SpectralMixture(components=2),
    "sm-isotropic-amplitude": SpectralMixture(components=3, ard=False, amplitude=True),
    "additive": Additive(),
    "additive-pairs-matern32": Additive("matern32", orders=2),
    "additive-matern12": Additive("matern12", orders=1),
    "additive-some-features": Additive("matern52", dims=(2, 0)),
    "orthogonal": OrthogonalAdditive(),
    "orthogonal-pairs": OrthogonalAdditive(orders=2),
    "linear": Linear(),
    "linear-isotropic-amplitude": Linear(ard=False, amplitude=True),
    "linear-origin": Linear(amplitude=True, origin=True),
    "constant": Constant(),
    "switch": Switch(on=1),
    "switch-off": Switch(rising=False, dims=(0,)),
    "change-point": ChangePoint(SquaredExponential(dims=(0,)), Linear(), on=2),
    "change-point-chosen": ChangePoint(Matern32() + Constant(), Periodic(), dims=(2, 0), on=1),
    "sum": SquaredExponential(dims=(2, 0)) + Linear() + Constant(),
    "product": SquaredExponential() * Periodic(amplitude=False, dims=(0,)) * Constant(amplitude=False),
    "nested": Sum(Matern32() * Linear(dims=(0,)), NeuralNetwork(), dims=(1, 2)),
}
STATIONARY = {"se": SquaredExponential(), "matern12": Matern12(), "matern32": Matern32(), "matern52": Matern52()}
all_kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
all_stationary = pytest.mark.parametrize("kernel", STATIONARY.values(), ids=STATIONARY.keys())


def features(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(kernel: Kernel, H: torch.Tensor, count: int | None = None, seed: int = 1):
    """Starting values of the kernel, without batch or with one of ``count``."""
    values = Layout(kernel.parameters(H)).draw(torch.Generator().manual_seed(seed), count or 1)
    return values if count else map_leaves(lambda leaf: leaf[0], values)


def as_numpy(values):
    return map_leaves(lambda leaf: leaf.numpy(), values)


def function_of_leaves(kernel: Kernel, values, compute):
    """compute(values, *Hs) as a function of the flat list (leaves..., Hs...), for gradcheck."""
    names = [name for name, _ in leaves(values)]

    def function(*tensors):
        return compute(nest(dict(zip(names, tensors, strict=False))), *tensors[len(names) :])

    return function, [leaf.detach().clone().requires_grad_() for _, leaf in leaves(values)]


# ------------------------------------------------------------------------------------------------------- values


@all_kernels
def test_matrix_cross_and_diagonal_agree_with_the_double_loop(kernel):
    H, G = features(7, 3), features(5, 3, seed=2)
    values = drawn(kernel, H)
    expected = torch.from_numpy(kernel_matrix(kernel, as_numpy(values), H.numpy(), H.numpy()))
    crossed = torch.from_numpy(kernel_matrix(kernel, as_numpy(values), H.numpy(), G.numpy()))
    torch.testing.assert_close(kernel.matrix(values, H), expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(kernel.cross(values, H, G), crossed, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(kernel.diagonal(values, H), expected.diagonal(), rtol=1e-12, atol=1e-14)


@all_kernels
def test_matrix_is_symmetric_positive_semidefinite_and_a_cross_matrix(kernel):
    H = features(40, 3)
    values = drawn(kernel, H)
    K = kernel.matrix(values, H)
    torch.testing.assert_close(K, K.mT, rtol=0, atol=1e-13)
    torch.testing.assert_close(K, kernel.cross(values, H, H), rtol=0, atol=1e-13)
    torch.testing.assert_close(K.diagonal(), kernel.diagonal(values, H), rtol=0, atol=1e-13)
    assert torch.linalg.eigvalsh(K).min() >= -1e-10 * K.trace()


@all_kernels
def test_with_a_gradient_or_without_the_values_are_the_same(kernel):
    H = features(6, 3)
    values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H))
    with torch.no_grad():
        plain = kernel.matrix(values, H), kernel.cross(values, H, H[:2]), kernel.diagonal(values, H)
    followed = kernel.matrix(values, H), kernel.cross(values, H, H[:2]), kernel.diagonal(values, H)
    for a, b in zip(plain, followed, strict=True):
        assert torch.equal(a, b)


@all_kernels
def test_one_row_and_no_rows(kernel):
    H = features(4, 3)
    values = drawn(kernel, H)
    assert kernel.matrix(values, H[:1]).shape == (1, 1)
    assert kernel.cross(values, H, H[:0]).shape == (4, 0)
    assert kernel.cross(values, H[:0], H).shape == (0, 4)
    assert kernel.diagonal(values, H[:0]).shape == (0,)


def test_exact_variance_on_the_diagonal_of_stationary_kernels():
    H = 1e3 + features(30, 3)
    for kernel in (*STATIONARY.values(), RationalQuadratic(), Periodic()):
        values = drawn(kernel, H)
        assert torch.equal(kernel.matrix(values, H).diagonal(), values["variance"].expand(30))


def test_rational_quadratic_of_large_shape_is_the_squared_exponential():
    H = features(6, 2)
    values = drawn(SquaredExponential(), H)
    rough = RationalQuadratic().matrix({**values, "shape": torch.tensor(1e9, dtype=torch.float64)}, H)
    torch.testing.assert_close(rough, SquaredExponential().matrix(values, H), rtol=1e-6, atol=1e-8)


def test_neural_network_kernel_is_that_of_rasmussen_and_williams():
    # eq. 4.29: 2/pi arcsin(2 x Sigma z / sqrt((1 + 2 x Sigma x)(1 + 2 z Sigma z))) with Sigma = P / 2 and variance 2 / pi
    H = features(5, 2)
    values = drawn(NeuralNetwork(), H)
    x = torch.cat([torch.ones(5, 1, dtype=torch.float64), H], -1)
    sigma = torch.diag(torch.cat([values["bias"][None], values["weights"]])) / 2
    S = 2 * x @ sigma @ x.mT
    expected = 2 / math.pi * torch.arcsin(S / torch.sqrt((1 + S.diagonal())[:, None] * (1 + S.diagonal())[None]))
    values["variance"] = torch.tensor(2 / math.pi, dtype=torch.float64)
    torch.testing.assert_close(NeuralNetwork().matrix(values, H), expected, rtol=1e-12, atol=1e-14)


def test_periodic_kernel_repeats():
    H = features(5, 2)
    values = drawn(Periodic(), H)
    shifted = H + 3 * values["period"]
    torch.testing.assert_close(Periodic().cross(values, H, shifted), Periodic().matrix(values, H), rtol=1e-10, atol=1e-12)


# -------------------------------------------------------------------------------------------------------- batches


@all_kernels
@pytest.mark.parametrize("batched", ["both", "values", "features", "outputs"])
def test_a_batch_is_a_loop(kernel, batched):
    R, O = 3, 2  # noqa: E741
    count = R * O if batched == "outputs" else None if batched == "features" else R
    H = features(5, 3) if batched == "values" else features(R, 5, 3)
    G = features(4, 3, seed=5) if batched == "values" else features(R, 4, 3, seed=5)
    values = drawn(kernel, features(5, 3), count)
    if batched == "outputs":  # values (R, O, ...), features (R, 1, ...): several outputs on shared features
        values = map_leaves(lambda leaf: leaf.unflatten(0, (R, O)), values)
        H, G = H.unsqueeze(1), G.unsqueeze(1)
    K, C, d = kernel.matrix(values, H), kernel.cross(values, H, G), kernel.diagonal(values, H)
    for index in [(r, o) for r in range(R) for o in range(O)] if batched == "outputs" else [(r,) for r in range(R)]:
        one = values if batched == "features" else map_leaves(lambda leaf, i=index: leaf[i], values)
        h, g = (H, G) if batched == "values" else (H[index[0]], G[index[0]])
        h, g = (h[0], g[0]) if batched == "outputs" else (h, g)
        if not values and batched in ("values", "outputs"):
            continue  # without parameters the batch comes from the features alone
        torch.testing.assert_close(K[index], kernel.matrix(one, h), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(C[index], kernel.cross(one, h, g), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(d[index], kernel.diagonal(one, h), rtol=1e-13, atol=1e-14)


@all_stationary
def test_gradients_of_a_batch_are_those_of_a_loop(kernel):
    H, W = features(3, 6, 2).requires_grad_(), features(3, 6, 6, seed=3)
    values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H, 3))
    inputs = [H, values["variance"], values["lengthscale"]]
    together = torch.autograd.grad(kernel.matrix(values, H), inputs, W)
    for r in range(3):
        one = map_leaves(lambda leaf, r=r: leaf[r].detach().requires_grad_(), values)
        h = H[r].detach().requires_grad_()
        alone = torch.autograd.grad(kernel.matrix(one, h), [h, one["variance"], one["lengthscale"]], W[r])
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[r], b, rtol=1e-11, atol=1e-13)


# ------------------------------------------------------------------------------------------------------- gradients


@all_kernels
def test_first_and_second_derivatives_of_matrix(kernel):
    H = features(4, 3)
    function, inputs = function_of_leaves(kernel, drawn(kernel, H), kernel.matrix)
    if not isinstance(kernel, Constant):
        inputs.append(H.requires_grad_())
    else:
        function = lambda variance: kernel.matrix({"variance": variance}, H)  # noqa: E731
    assert gradcheck(function, inputs, atol=1e-7)
    assert gradgradcheck(function, inputs, atol=1e-6)


@all_kernels
def test_the_gradient_with_a_graph_is_the_gradient_without(kernel):
    H, G = features(6, 3).requires_grad_(), features(4, 3, seed=4).requires_grad_()
    values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H))
    leaf_list = [leaf for _, leaf in leaves(values)]
    cases = [(kernel.matrix, (H,), features(6, 6, seed=5)), (kernel.cross, (H, G), features(6, 4, seed=6))]
    for compute, inputs, W in cases:
        wanted = leaf_list + ([] if isinstance(kernel, Constant) else list(inputs))
        plain = torch.autograd.grad(compute(values, *inputs), wanted, W)
        graph = torch.autograd.grad(compute(values, *inputs), wanted, W, create_graph=True)
        for a, b in zip(plain, graph, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


@all_kernels
def test_first_and_second_derivatives_of_cross_and_diagonal(kernel):
    H, G = features(3, 3), features(2, 3, seed=4)
    values = drawn(kernel, H)
    function, inputs = function_of_leaves(kernel, values, kernel.cross)
    if isinstance(kernel, Constant):
        function = lambda variance: kernel.cross({"variance": variance}, H, G)  # noqa: E731
    else:
        inputs += [H.requires_grad_(), G.requires_grad_()]
    assert gradcheck(function, inputs, atol=1e-7)
    assert gradgradcheck(function, inputs, atol=1e-6)
    diagonal, inputs = function_of_leaves(kernel, values, lambda v: kernel.diagonal(v, H.detach()))
    if inputs and diagonal(*inputs).requires_grad:
        used = [i for i, g in enumerate(torch.autograd.grad(diagonal(*inputs).sum(), inputs, allow_unused=True)) if g is not None]
        fixed = [leaf.detach() for leaf in inputs]

        def of_used(*tensors):
            return diagonal(*(tensors[used.index(i)] if i in used else fixed[i] for i in range(len(fixed))))

        assert gradcheck(of_used, [inputs[i] for i in used], atol=1e-7)


@all_kernels
def test_a_gradient_reaches_every_parameter(kernel):
    H = features(6, 3)
    values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H))
    names = [name for name, _ in leaves(values)]
    if not names:
        assert kernel == Matern52(amplitude=False, scaled=False)
        return
    gradients = torch.autograd.grad((kernel.matrix(values, H) * features(6, 6, seed=8)).sum(), [v for _, v in leaves(values)])
    for name, gradient in zip(names, gradients, strict=True):
        assert bool(gradient.abs().min() > 0), name


@pytest.mark.parametrize("part", ["variance", "lengthscale", "first", "second"])
@all_stationary
def test_gradients_of_some_inputs_only(kernel, part):
    H, G, W = features(5, 2), features(4, 2, seed=3), features(5, 4, seed=6)
    values = drawn(kernel, H)
    inputs = {"first": H, "second": G, **values}
    everything = {name: leaf.clone().requires_grad_() for name, leaf in inputs.items()}
    one = {name: leaf.clone().requires_grad_(name == part) for name, leaf in inputs.items()}
    expected = torch.autograd.grad(kernel.cross(everything, everything["first"], everything["second"]), everything[part], W)[0]
    (alone,) = torch.autograd.grad(kernel.cross(one, one["first"], one["second"]), one[part], W)
    torch.testing.assert_close(alone, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "curvature"),
    [(SquaredExponential(), 1.0), (Matern52(), 5 / 3), (Matern32(), 3.0), (RationalQuadratic(), 1.0)],
    ids=["se", "matern52", "matern32", "rq"],
)
def test_mixed_second_derivative_at_equal_points(kernel, curvature):
    # d^2 k / dh dh' at h = h' is the prior covariance of the derivatives: variance * curvature / lengthscale^2
    values = drawn(kernel, features(9, 2))
    h, g = (torch.tensor([[0.3, -0.7]], dtype=torch.float64, requires_grad=True) for _ in range(2))
    (slope,) = torch.autograd.grad(kernel.cross(values, h, g), h, create_graph=True)
    rows = [torch.autograd.grad(slope[0, q], g, retain_graph=True)[0][0] for q in range(2)]
    expected = torch.diag(curvature * values["variance"] / values["lengthscale"] ** 2)
    torch.testing.assert_close(torch.stack(rows), expected, rtol=1e-10, atol=1e-12)
    assert torch.equal(slope, torch.zeros_like(slope))


@all_kernels
def test_equal_rows_give_finite_gradients(kernel):
    H = features(4, 3)
    values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H))
    H = torch.cat([H, H[:2]]).requires_grad_()
    K = kernel.matrix(values, H)
    torch.testing.assert_close(K[4:], K[:2], rtol=0, atol=1e-14)
    inputs = [leaf for _, leaf in leaves(values)] + ([] if isinstance(kernel, Constant) else [H])
    first = torch.autograd.grad(K, inputs, features(6, 6, seed=2), create_graph=True)
    assert all(bool(torch.isfinite(g).all()) for g in first)
    if isinstance(kernel, Constant):
        return
    second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs, allow_unused=True)
    assert all(g is None or bool(torch.isfinite(g).all()) for g in second)


def test_the_kink_of_matern12_has_no_slope():
    values = drawn(Matern12(), features(5, 2))
    H = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(Matern12().matrix(values, H).sum(), H, create_graph=True)
    assert torch.equal(gradient, torch.zeros_like(gradient))
    (curvature,) = torch.autograd.grad(gradient[0, 0], H)
    assert torch.equal(curvature, torch.zeros_like(curvature))


# --------------------------------------------------------------------------------- blocks, digits and memory


@all_stationary
@pytest.mark.parametrize("block", [1, 7, 12, 100])
def test_blocks_change_nothing(kernel, block, monkeypatch):
    H, G, W = features(5, 7, 2), features(5, 6, 2, seed=3), features(5, 7, 7, seed=6)

    def results():
        leaf_H, leaf_G = H.clone().requires_grad_(), G.clone().requires_grad_()
        values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H, 5))
        inputs = [leaf_H, *values.values()]
        K, C = kernel.matrix(values, leaf_H), kernel.cross(values, leaf_H, leaf_G)
        return K, C, *torch.autograd.grad(K, inputs, W), *torch.autograd.grad(C, [leaf_G, *inputs], W[..., :6])

    whole = results()
    monkeypatch.setattr(_radial, "BLOCK", block)
    for a, b in zip(results(), whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kernel", [*STATIONARY.values(), RationalQuadratic()], ids=[*STATIONARY, "rq"])
@pytest.mark.parametrize("offset", [0.0, 30.0, 1e4])
def test_digits_survive_a_large_offset_and_small_lengthscales(kernel, offset):
    # Rows are multiples of 2^-20, so that their differences, and with them the reference, are exact. What remains is the rounding
    # of H / lengthscale, 1e-16 of the offset.
    H = (features(8, 2) * 2**20).round() / 2**20 + offset
    H[1] = H[0] + 2.0**-20
    values = drawn(kernel, H)
    for shrink in (1.0, 1e-1, 1e-3):
        scaled = {**values, "lengthscale": shrink * values["lengthscale"]}
        expected = torch.from_numpy(kernel_matrix(kernel, as_numpy(scaled), H.numpy(), H.numpy()))
        for K in (kernel.matrix(scaled, H), kernel.cross(scaled, H, H.clone())):
            torch.testing.assert_close(K, expected, rtol=3e-10, atol=1e-10 if offset else 1e-11)


def test_an_offset_alone_is_removed_by_centring(monkeypatch):
    monkeypatch.setattr(_radial, "FAR", math.inf)  # products only
    H = (features(8, 2) * 2**20).round() / 2**20 + 1e4
    values = drawn(SquaredExponential(), H)
    expected = torch.from_numpy(kernel_matrix(SquaredExponential(), as_numpy(values), H.numpy(), H.numpy()))
    torch.testing.assert_close(SquaredExponential().matrix(values, H), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(SquaredExponential().cross(values, H, H.clone()), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [30.0, 1e4])
@all_stationary
def test_gradients_far_from_the_origin(kernel, scale):
    H = scale * features(4, 2)
    values = {
        "variance": torch.tensor(1.3, dtype=torch.float64),
        "lengthscale": torch.tensor([scale, 2 * scale], dtype=torch.float64),
    }
    H = (H + 50 * scale).requires_grad_()
    assert gradcheck(lambda h: kernel.matrix(values, h), [H], eps=1e-6 * scale, atol=1e-6 / scale)
    narrow = {**values, "lengthscale": torch.tensor([0.3, 0.3], dtype=torch.float64)}
    close = torch.tensor([[0.0, 0.1], [0.2, 0.0], [0.1, 0.1], [500.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda h: kernel.matrix(narrow, h), [close], atol=1e-6)


class CountLargeAllocations(TorchDispatchMode):
    """Counts the fresh storages of at least ``nbytes``."""

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.nbytes, self.count = nbytes, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        flat, _ = torch.utils._pytree.tree_flatten((args, kwargs))
        known = {t.untyped_storage().data_ptr() for t in flat if isinstance(t, torch.Tensor)}
        for t in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(t, torch.Tensor) and t.untyped_storage().nbytes() >= self.nbytes:
                self.count += t.untyped_storage().data_ptr() not in known
        return result


@pytest.mark.parametrize(
    ("kernel", "saved"),
    [(SquaredExponential(), 1), (Matern12(), 2), (Matern32(), 2), (Matern52(), 2), (Periodic(), 1)],
    ids=["se", "matern12", "matern32", "matern52", "periodic"],
)
def test_large_matrices_allocated(kernel, saved):
    for N, allowed_backward in ((200, 1), (600, 0)):  # one block, several blocks
        H = features(N, 3).requires_grad_()
        W = features(N, N, seed=2)
        values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H))
        with CountLargeAllocations(N * N * 8) as forward:
            K = kernel.matrix(values, H)
        temporaries = 1 if isinstance(kernel, Matern52) and allowed_backward else 0  # exp(-a) of the one block
        assert forward.count == saved + temporaries
        with CountLargeAllocations(N * N * 8) as backward:
            torch.autograd.grad(K, [H, *values.values()], W)
        assert backward.count == allowed_backward


# ------------------------------------------------------------------------------------------ any shape, any scale


@given(
    name=st.sampled_from(
        sorted(
            set(KERNELS)
            - {
                "se-one-feature",
                "additive-some-features",
                "sum",
                "product",
                "nested",
                "switch",
                "change-point",
                "change-point-chosen",
            }
        )
    ),
    N=st.integers(1, 12),
    Q=st.integers(1, 4),
    log_scale=st.floats(-6, 6),
    offset=st.sampled_from([0.0, 1.0, 100.0]),
    log_gap=st.floats(-12, -3),
    seed=st.integers(0, 2**16),
)
def test_any_shape_scale_and_near_duplicates(name, N, Q, log_scale, offset, log_gap, seed):
    kernel = KERNELS[name]
    H = features(N, Q, seed=seed)
    H[N // 2 :] = H[: N - N // 2] + 10**log_gap * H[N // 2 :]  # near-duplicates of the first half
    H = ((H + offset) * 10**log_scale).requires_grad_()
    values = map_leaves(lambda leaf: leaf.requires_grad_(), drawn(kernel, H, seed=seed))
    K = kernel.matrix(values, H)
    # Where the sine is 1 but for rounding (features that hardly vary, far from the origin), the arcsine keeps half the digits.
    slack = 1e-8 if isinstance(kernel, NeuralNetwork) else 1e-10
    assert bool(torch.isfinite(K).all())
    assert torch.linalg.eigvalsh(K.detach()).min() >= -slack * K.detach().trace()
    torch.testing.assert_close(kernel.cross(values, H, H), K, rtol=0, atol=slack * float(K.detach().trace()))
    inputs = [leaf for _, leaf in leaves(values)] + ([] if name == "constant" else [H])
    for gradient in torch.autograd.grad(K.sum(), inputs):
        assert bool(torch.isfinite(gradient).all())


@given(
    name=st.sampled_from(sorted(STATIONARY)), log_ratio=st.floats(-6, 6), log_gap=st.floats(-12, 0), seed=st.integers(0, 2**16)
)
def test_any_lengthscale_relative_to_the_spread(name, log_ratio, log_gap, seed):
    kernel = STATIONARY[name]
    H = features(10, 2, seed=seed)
    H[5:] = H[:5] + 10**log_gap * H[5:]
    values = {
        "variance": torch.tensor(2.0, dtype=torch.float64),
        "lengthscale": torch.full((2,), 10**log_ratio, dtype=torch.float64),
    }
    K = kernel.matrix(values, H.requires_grad_())
    assert torch.linalg.eigvalsh(K.detach()).min() >= -1e-10 * K.detach().trace()
    (gradient,) = torch.autograd.grad(K.sum(), H)
    assert bool(torch.isfinite(gradient).all())


# -------------------------------------------------------------------------------------------- starting values


@pytest.mark.parametrize("count", [2, 3, 500])  # 3 = Q: the number of starts is not mistaken for that of features
def test_lengthscales_start_around_the_spread_of_the_features(count):
    H = features(50, 3) * torch.tensor([1.0, 10.0, 0.0], dtype=torch.float64)
    parameter = SquaredExponential().parameters(H)["lengthscale"]
    drawn = parameter.initial(torch.Generator().manual_seed(0), count)
    assert drawn.shape == (count, 3)
    assert parameter.positive
    if count == 500:
        centre = math.sqrt(3) * H.std(-2, correction=0).clamp(min=1e-3)
        torch.testing.assert_close(drawn.log().mean(0), centre.log(), rtol=0, atol=0.1)
        torch.testing.assert_close(drawn.log().std(0), torch.full((3,), 0.7, dtype=torch.float64), rtol=0.1, atol=0)


@all_kernels
def test_starting_values_follow_the_scale_of_the_features_start_by_start(kernel):
    scales = torch.tensor([1e-2, 1.0, 1e2, 1e4], dtype=torch.float64)
    base = features(20, 3)
    H = scales[:, None, None] * base
    values, plain = drawn(kernel, H, 4), drawn(kernel, base, 4)
    for name, parameter in leaves(kernel.parameters(H)):
        assert dict(leaves(values))[name].shape == (4, *parameter.shape)
        assert parameter.positive == (name.split(".")[-1] not in ("origin", "location"))
    again = drawn(kernel, H, 4)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(leaves(values), leaves(again), strict=True))
    if isinstance(kernel, OrthogonalAdditive):
        return  # its law of the inputs is the standard normal one, whatever their unit
    if getattr(kernel, "scaled", True):  # with the same random numbers, the unit of the features does not matter
        torch.testing.assert_close(kernel.matrix(values, H), kernel.matrix(plain, base.expand(4, 20, 3)), rtol=1e-9, atol=1e-11)


def test_starts_that_do_not_match_the_features_are_refused():
    parameter = SquaredExponential().parameters(features(4, 5, 3))["lengthscale"]
    with pytest.raises(InputError, match=r"features of \(4,\) starts, and 5 starts are drawn"):
        parameter.initial(torch.Generator(), 5)


# ------------------------------------------------------------------------------- descriptions and combinations


@all_kernels
def test_descriptions_are_plain_data(kernel):
    assert copy.deepcopy(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert hash(copy.deepcopy(kernel)) == hash(kernel)
    assert eval(repr(kernel)) == kernel  # the repr is the constructor call
    assert replace(kernel, dims=(0,)).dims == (0,)
    assert replace(kernel, dims=(0,)) != replace(kernel, dims=(1,))
    with pytest.raises(AttributeError, match="cannot assign"):
        kernel.dims = (0,)


def test_sums_and_products_are_flat_and_rebuild_from_their_parts():
    a, b, c = SquaredExponential(), Linear(), Constant()
    assert a + b + c == Sum(a, b, c) == Sum(parts=(a, b, c)) == Sum(a, parts=[b, c]) == a + (b + c)
    assert a * b * c == Product(a, b, c)
    assert (a + b) * c == Product(Sum(a, b), c)
    assert Sum(Sum(a, b, dims=(0,)), c).parts == (Sum(a, b, dims=(0,)), c)
    assert a + b != b + a
    tree = Sum(a, b).parameters(features(5, 2))
    assert list(tree) == ["0", "1"]
    assert set(dict(leaves(tree))) == {"0.variance", "0.lengthscale", "1.weights"}


def test_combinations_refuse_what_is_not_a_kernel():
    with pytest.raises(InputError, match="Sum joins kernels, at least one; got"):
        Sum(SquaredExponential(), 3.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Product joins kernels, at least one; got \(\)"):
        Product()
    with pytest.raises(TypeError, match="unsupported operand"):
        SquaredExponential() + 1  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        SquaredExponential() * 2.0  # type: ignore[operator]


@all_kernels
def test_dims_choose_features(kernel):
    H, G = features(5, 6), features(4, 6, seed=3)
    chosen = replace(kernel, dims=(4, 0, 5))
    slow = [4, 0, 5]
    values = drawn(chosen, H)
    plain = replace(kernel, dims=None)
    assert torch.equal(chosen.matrix(values, H), plain.matrix(values, H[:, slow]))
    assert torch.equal(chosen.cross(values, H, G), plain.cross(values, H[:, slow], G[:, slow]))
    assert torch.equal(chosen.diagonal(values, H), plain.diagonal(values, H[:, slow]))
    with pytest.raises(InputError, match=r"uses the features \(4, 0, 5\), but there are only 5, numbered from 0"):
        chosen.matrix(values, H[:, :5])
    with pytest.raises(InputError, match="there are only 2"):
        chosen.parameters(H[:, :2])


@pytest.mark.parametrize("dims", [(), (0, 0), (-1,), (0.5,), ("a",)])
def test_dims_that_make_no_sense(dims):
    with pytest.raises(InputError, match="dims must name different features by their index"):
        SquaredExponential(dims=dims)


def test_dims_from_a_list_become_a_tuple():
    assert SquaredExponential(dims=[0, 2]) == SquaredExponential(dims=(0, 2))  # type: ignore[arg-type]
    assert Sum(SquaredExponential(), dims=[0, 2]).dims == (0, 2)  # type: ignore[arg-type]


def test_shorthands():
    assert as_kernel("se") == SquaredExponential()
    assert as_kernel("sm") == SpectralMixture()
    known = {"se", "nn", "matern12", "matern32", "matern52", "rq", "periodic", "sm", "linear", "additive", "oak"}
    assert len({type(as_kernel(name)) for name in known}) == len(known)
    kernel = Matern32(ard=False)
    assert as_kernel(kernel) is kernel
    with pytest.raises(InputError, match=r"one of the shorthands .*'se'.*got 'rbf'"):
        as_kernel("rbf")
    with pytest.raises(InputError, match=r"A kernel is expected.*got 3"):
        as_kernel(3)  # type: ignore[arg-type]


def test_components_are_counted():
    with pytest.raises(InputError, match="at least 1; got 0"):
        SpectralMixture(components=0)


def test_abstract_kernels_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Kernel()  # type: ignore[abstract]


def test_a_centred_period_keeps_its_digits_where_it_is_a_cosine():
    kernel, h = Periodic(centred=True, amplitude=False), torch.linspace(0, 3, 7, dtype=torch.float64)[:, None]
    values = {"period": torch.ones(1, dtype=torch.float64), "lengthscale": torch.full((1,), 1e6, dtype=torch.float64)}
    cosine = torch.cos(2 * math.pi * (h - h.mT))
    torch.testing.assert_close(kernel.matrix(values, h), cosine, rtol=0, atol=1e-4)
    shift = torch.ones(1, 1, dtype=torch.float64)
    torch.testing.assert_close(kernel.cross(values, h, h + shift), kernel.matrix(values, h), rtol=0, atol=1e-10)
