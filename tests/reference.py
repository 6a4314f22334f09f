"""Slow, obvious versions of the formulas, for tests to compare with: NumPy, double loops, one number at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np

# ---------------------------------------------------------------------------------------------------------------- kernels


def kernel_matrix(kernel, values, H1, H2):
    """K_ij = k(h1_i, h2_j), entry by entry. values: the kernel's tree with NumPy leaves."""
    return np.array([[kernel_value(kernel, values, h, g) for g in H2] for h in H1])


def kernel_value(kernel, values, h, g):
    """k(h, g) of any kernel of the package."""
    if kernel.dims is not None:
        h, g = h[list(kernel.dims)], g[list(kernel.dims)]
    name = type(kernel).__name__
    if name == "Sum":
        return sum(kernel_value(part, values.get(str(i), {}), h, g) for i, part in enumerate(kernel.parts))
    if name == "Product":
        return math.prod(kernel_value(part, values.get(str(i), {}), h, g) for i, part in enumerate(kernel.parts))
    if name in ("Additive", "OrthogonalAdditive"):
        return sum_over_sets(kernel, values, h, g)
    variance = float(values["variance"]) if "variance" in values else 1.0
    return variance * _UNIT_KERNELS[name](values, h, g)


def squared_distance(values, h, g):
    lengthscale = np.broadcast_to(values.get("lengthscale", 1.0), h.shape)
    return sum(((h[q] - g[q]) / lengthscale[q]) ** 2 for q in range(len(h)))


def squared_exponential(values, h, g):
    return math.exp(-0.5 * squared_distance(values, h, g))


def matern12(values, h, g):
    return math.exp(-math.sqrt(squared_distance(values, h, g)))


def matern32(values, h, g):
    a = math.sqrt(3 * squared_distance(values, h, g))
    return (1 + a) * math.exp(-a)


def matern52(values, h, g):
    a = math.sqrt(5 * squared_distance(values, h, g))
    return (1 + a + a**2 / 3) * math.exp(-a)


def rational_quadratic(values, h, g):
    shape = float(values["shape"])
    return (1 + squared_distance(values, h, g) / (2 * shape)) ** -shape


def neural_network(values, h, g):
    P = np.diag([float(values["bias"]), *np.broadcast_to(values["weights"], h.shape)])
    x, z = np.array([1.0, *h]), np.array([1.0, *g])
    return math.asin(x @ P @ z / math.sqrt((1 + x @ P @ x) * (1 + z @ P @ z)))


def periodic(values, h, g):
    period, lengthscale = np.broadcast_to(values["period"], h.shape), np.broadcast_to(values["lengthscale"], h.shape)
    return math.exp(-2 * sum((math.sin(math.pi * (h[q] - g[q]) / period[q]) / lengthscale[q]) ** 2 for q in range(len(h))))


def spectral_mixture(values, h, g):
    total = 0.0
    for m, weight in enumerate(values["weights"]):
        frequency, bandwidth = (np.broadcast_to(values[name][m], h.shape) for name in ("frequency", "bandwidth"))
        term = weight
        for q in range(len(h)):
            t = h[q] - g[q]
            term *= math.exp(-2 * math.pi**2 * t**2 * bandwidth[q] ** 2) * math.cos(2 * math.pi * t * frequency[q])
        total += term
    return total


def linear(values, h, g):
    weights = np.broadcast_to(values["weights"], h.shape)
    return sum(weights[q] * h[q] * g[q] for q in range(len(h)))


def constant(values, h, g):
    return 1.0


def sum_over_sets(kernel, values, h, g):
    """Every set of up to ``orders`` inputs by itself; the variance of an order is shared by its sets."""
    z = [one_dimensional(kernel, float(scale), h[q], g[q]) for q, scale in enumerate(values["lengthscale"])]
    highest, lowest = min(kernel.orders, len(z)), 0 if type(kernel).__name__ == "OrthogonalAdditive" else 1
    total = 0.0
    for variance, order in zip(values["variance"], range(lowest, highest + 1), strict=True):
        sets = list(itertools.combinations(z, order))
        total += float(variance) * sum(math.prod(chosen) for chosen in sets) / len(sets)
    return total


def one_dimensional(kernel, lengthscale, h, g):
    if type(kernel).__name__ == "OrthogonalAdditive":
        # k − E k(h, ·) E k(·, g) / E E k under a standard normal law (Lu et al. 2022), all three integrals of Gaussians
        def mean(x):
            return lengthscale / math.sqrt(lengthscale**2 + 1) * math.exp(-(x**2) / (2 * (lengthscale**2 + 1)))

        both = lengthscale / math.sqrt(lengthscale**2 + 2)
        return math.exp(-((h - g) ** 2) / (2 * lengthscale**2)) - mean(h) * mean(g) / both
    profile = {"se": squared_exponential, "matern12": matern12, "matern32": matern32, "matern52": matern52}[kernel.base]
    return profile({"lengthscale": lengthscale}, np.array([h]), np.array([g]))


_UNIT_KERNELS = {
    "SquaredExponential": squared_exponential,
    "Matern12": matern12,
    "Matern32": matern32,
    "Matern52": matern52,
    "RationalQuadratic": rational_quadratic,
    "NeuralNetwork": neural_network,
    "Periodic": periodic,
    "SpectralMixture": spectral_mixture,
    "Linear": linear,
    "Constant": constant,
}


# ---------------------------------------------------------------------------------- features, means, warpings, whole models


def features_of(features, values, X):
    """H (N, Q), row by row, of the identity, a network of sigmoids or tanhs, or several side by side. values: NumPy leaves."""
    return np.array([_features_of_row(features, values, x) for x in X])


def _features_of_row(features, values, x):
    name = type(features).__name__
    if name == "Identity":
        return list(x)
    if name == "Concatenate":
        parts = (_features_of_row(part, values.get(str(i), {}), x) for i, part in enumerate(features.parts))
        return [h for part in parts for h in part]
    assert name == "MLP", name
    transfer = {"sigmoid": lambda z: 1 / (1 + math.exp(-z)), "tanh": math.tanh, "identity": lambda z: z}
    h = list(x)
    for i, activation in enumerate(features.activations):
        weight, bias = values[str(i)]["weight"], values[str(i)]["bias"]
        z = [sum(h[a] * weight[a, b] for a in range(len(h))) + bias[b] for b in range(len(bias))]
        h = [transfer[activation](v) for v in z]
    return h


def mean_of(mean, values, X, H):
    """m (N,), row by row, at rows with the inputs X and the features H."""
    name = type(mean).__name__
    if name == "Zero":
        return np.zeros(len(X))
    if name == "Constant":
        return np.array([float(values["constant"]) for _ in X])
    assert name == "Linear", name
    points = {"inputs": X, "features": H}[mean.on]
    return np.array([float(values["bias"]) + sum(values["weights"][i] * p[i] for i in range(len(p))) for p in points])


def warped(warping, values, y):
    """z = g(y) and the slope g'(y), each (N,), number by number."""
    if type(warping).__name__ == "NoWarping":
        return np.array(y, dtype=float), np.ones(len(y))
    terms = list(zip(values["height"], values["steepness"], values["centre"], strict=True))
    z = [t + sum(a * math.tanh(b * (t + c)) for a, b, c in terms) for t in y]
    slope = [1 + sum(a * b / math.cosh(min(abs(b * (t + c)), 300.0)) ** 2 for a, b, c in terms) for t in y]
    return np.array(z), np.array(slope)


def negative_log_density(r, A):
    """−log N(r | 0, A), by inverse and determinant."""
    sign, log_det = np.linalg.slogdet(A)
    assert sign > 0
    return 0.5 * r @ np.linalg.inv(A) @ r + 0.5 * log_det + 0.5 * len(r) * math.log(2 * math.pi)


def noise_variances(model, values, N, known_noise):
    """The diagonal that is added to K (N,)."""
    learned = float(values["noise"]["scale"]) ** 2 if model.noise.learned else 0.0
    return np.array([learned + model.noise.floor**2 + (0.0 if known_noise is None else known_noise[i]) for i in range(N)])


def model_nlml(model, values, X, y, known_noise=None, mask=None):
    """NLML of one target under one start: values without batch, NumPy leaves."""
    rows = [i for i in range(len(X)) if mask is None or mask[i]]
    X, y = X[rows], y[rows]
    known_noise = None if known_noise is None else known_noise[rows]
    H = features_of(model.features, values.get("features", {}), X)
    A = kernel_matrix(model.kernel, values.get("kernel", {}), H, H) + np.diag(noise_variances(model, values, len(X), known_noise))
    z, slope = warped(model.warping, values.get("warping", {}), y)
    r = z - mean_of(model.mean, values.get("mean", {}), X, H)
    return negative_log_density(r, A) - sum(math.log(s) for s in slope)


def model_posterior(model, values, X, y, X_new, known_noise=None):
    """Mean (n,) and covariance (n, n) of f at X_new (eqs. 2-4 on features), by inverse; z for y where targets are warped."""
    H, H_new = (features_of(model.features, values.get("features", {}), points) for points in (X, X_new))
    kernel = values.get("kernel", {})
    A = kernel_matrix(model.kernel, kernel, H, H) + np.diag(noise_variances(model, values, len(X), known_noise))
    k = kernel_matrix(model.kernel, kernel, H, H_new)
    z, _ = warped(model.warping, values.get("warping", {}), y)
    means = values.get("mean", {})
    inverse = np.linalg.inv(A)
    mean = mean_of(model.mean, means, X_new, H_new) + k.T @ inverse @ (z - mean_of(model.mean, means, X, H))
    return mean, kernel_matrix(model.kernel, kernel, H_new, H_new) - k.T @ inverse @ k


def leave_one_out(model, values, X, y, known_noise=None):
    """Mean and variance (N,) of each z_i given all the other rows, by leaving it out."""
    means, variances = [], []
    diagonal = noise_variances(model, values, len(X), known_noise)
    for i in range(len(X)):
        rest = [j for j in range(len(X)) if j != i]
        known = None if known_noise is None else known_noise[rest]
        mean, covariance = model_posterior(model, values, X[rest], y[rest], X[i : i + 1], known)
        means.append(mean[0])
        variances.append(covariance[0, 0] + diagonal[i])
    return np.array(means), np.array(variances)


# ------------------------------------------------------------------------------------------------------------ sparse models


def collapsed_bound(model, values, X, y, known_noise=None):
    """The collapsed bound (Titsias 2009, eq. 9) with N x N matrices: −log N(r | 0, Q + noise) + ½ Σ (k_ii − Q_ii) / noise_i − Σ log g'."""
    H = features_of(model.features, values.get("features", {}), X)
    Z, kernel = values["inducing"]["Z"], values.get("kernel", {})
    K_ZZ, K_ZH = kernel_matrix(model.kernel, kernel, Z, Z), kernel_matrix(model.kernel, kernel, Z, H)
    Q = K_ZH.T @ np.linalg.inv(K_ZZ) @ K_ZH
    noise = noise_variances(model, values, len(X), known_noise)
    z, slope = warped(model.warping, values.get("warping", {}), y)
    r = z - mean_of(model.mean, values.get("mean", {}), X, H)
    prior = np.array([kernel_value(model.kernel, kernel, h, h) for h in H])
    trace = sum((prior[i] - Q[i, i]) / noise[i] for i in range(len(X)))
    return negative_log_density(r, Q + np.diag(noise)) + 0.5 * trace - sum(math.log(s) for s in slope)


def sparse_posterior(model, values, X, y, X_new, known_noise=None):
    """Mean (n,) and covariance (n, n) of f at X_new by inverses: with S = (K_ZZ + K_ZH W K_HZ)⁻¹, k_*Z S K_ZH W r and k** − Q** + k_*Z S k_Z*."""
    H, H_new = (features_of(model.features, values.get("features", {}), points) for points in (X, X_new))
    Z, kernel, means = values["inducing"]["Z"], values.get("kernel", {}), values.get("mean", {})
    K_ZZ, K_ZH, k = (kernel_matrix(model.kernel, kernel, Z, other) for other in (Z, H, H_new))
    W = np.diag(1 / noise_variances(model, values, len(X), known_noise))
    S = np.linalg.inv(K_ZZ + K_ZH @ W @ K_ZH.T)
    z, _ = warped(model.warping, values.get("warping", {}), y)
    mean = mean_of(model.mean, means, X_new, H_new) + k.T @ S @ K_ZH @ W @ (z - mean_of(model.mean, means, X, H))
    prior = kernel_matrix(model.kernel, kernel, H_new, H_new)
    return mean, prior - k.T @ np.linalg.inv(K_ZZ) @ k + k.T @ S @ k


def greedy_rows(K, count):
    """Rows with the largest conditional variance, one after another, from the whole kernel matrix."""
    chosen = []
    for _ in range(count):
        rest = K.diagonal().copy()
        if chosen:
            C = K[np.ix_(chosen, chosen)]
            rest = rest - np.einsum("im,im->i", K[:, chosen] @ np.linalg.inv(C), K[:, chosen])
            rest[chosen] = -1.0
        chosen.append(int(rest.argmax()))
    return chosen
