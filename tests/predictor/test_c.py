"""C files, compiled by gcc under sanitizers and by clang with all optimisations: every part of the package, in both floating-point types."""

import re
import subprocess

import numpy as np
import pytest
import torch

from c_programs import STRICT, compiler, run
from drawn_estimators import D, drawn_pair, every_part, make_inputs, rounding
from manifoldgp.errors import InputError
from manifoldgp.predictor.operations import OPERATIONS

X = make_inputs(4, seed=1)
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def estimators():
    return list(every_part())


@pytest.fixture(scope="module")
def covering(estimators):
    """A few of them that have all operations."""
    chosen, missing = [], set().union(*map(operations, estimators))
    while missing:
        chosen.append(max(estimators, key=lambda e: len(missing & operations(e))))
        missing -= operations(chosen[-1])
    return chosen


def operations(estimator):
    return {instruction.operation for instruction in estimator.predictor().program.instructions}


def slopes(estimator):
    """d mean / dx (n, O, D) by autograd; for warped targets, whose mean depends on the variance, by differences of the predictor."""
    scale = estimator.x_scaler_.scale
    if estimator.ensembles_[0]._warp().trivial:
        U = torch.from_numpy(estimator.x_scaler_.apply(X))
        return np.stack([ensemble.gradients(U)[0].numpy() / scale for ensemble in estimator.ensembles_], 1)
    p, step = estimator.predictor(), 1e-5 * scale * np.eye(D)
    return np.stack([(p(X + h) - p(X - h)) / (2 * h.sum()) for h in step], -1)[:, None]


def assert_agree(estimators, found, inputs=X, rtol=1e-10, units=1.0):
    """units: how much coarser the arithmetic is than float64."""
    for estimator, c in zip(estimators, found, strict=True):
        mean, std = (a.reshape(len(X), -1) for a in estimator.predictor()(inputs, return_std=True))
        mean_atol, variance_atol = (units * size for size in rounding(estimator, X))
        np.testing.assert_allclose(c.mean, mean, rtol=rtol, atol=mean_atol)
        np.testing.assert_allclose(c.std**2, std**2, rtol=rtol, atol=variance_atol)


def test_double_agrees_with_numpy_and_gradients_with_autograd(estimators, tmp_path):
    found = run([e.predictor() for e in estimators], X, tmp_path, compiler("gcc"), ("-O0",), "float64", gradient=True)
    assert_agree(estimators, found)
    for estimator, c in zip(estimators, found, strict=True):
        expected, exact = slopes(estimator), estimator.ensembles_[0]._warp().trivial
        rtol, atol = (1e-8, 1e-9) if exact else (1e-5, 1e-6)
        np.testing.assert_allclose(c.gradient, expected, rtol=rtol, atol=atol * (1e-9 + np.abs(expected).max()))


@pytest.mark.parametrize(("cc", "flags"), [("gcc", SANITIZED), ("gcc", ("-O3",)), ("clang", ("-O3",))])
def test_compilers_optimisations_and_sanitizers(covering, tmp_path, cc, flags):
    predictors = [e.predictor() for e in covering]
    assert_agree(covering, run(predictors, X, tmp_path, compiler(cc), flags, "float64", gradient=flags is SANITIZED))


def test_float_keeps_four_digits(estimators, tmp_path):
    """Beyond what rounding does: float32 has 29 bits less."""
    found = run([e.predictor() for e in estimators], X, tmp_path, compiler("gcc"), ("-O0",), "float32")
    assert_agree(estimators, found, X.astype(np.float32), rtol=1e-4, units=2.0**29)


def test_every_operation_has_loops_and_slopes():
    for operation in OPERATIONS.values():
        assert "view" in operation.forms or {"loops", "slopes"} <= set(operation.forms) | (
            {"slopes"} if operation.name in ("mixture_std", "certain_std") else set()
        )


def test_the_exponential_is_exact_and_far_away_it_is_zero(tmp_path):
    drawn_pair("mlp", "se").predictor().to_c(tmp_path / "model.c")
    body = re.search(r"typedef.*?^}", (tmp_path / "model.c").read_text(), re.S | re.M)
    assert body
    main = """
    int main(void)
    {
        double worst = 0;
        for (int i = 0; i < 300000; i++) {
            const double x = -1e-3 * i, y = exp(x), e = fabs(m_exp_negative(x) - y) / y;
            if (e > worst) worst = e;
        }
        printf("%g\\n", worst);
        for (double x = 400; x < 1e300; x *= 1.7) if (!(m_exp_negative(-x) >= 0 && m_exp_negative(-x) < 1e-70)) return 1;
        return 0;
    }"""
    includes = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n"
    (tmp_path / "exp.c").write_text(includes + body.group() + main)
    subprocess.run([compiler("gcc"), "-std=c99", "-O2", "-o", "exp", "exp.c", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "exp")], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1e-15


def test_stack_and_sizes_are_as_reported(tmp_path):
    p = drawn_pair("mlp", "se", members=2).predictor()
    report = p.to_c(tmp_path / "model.c", gradient=True)
    assert str(report).startswith(f"{tmp_path / 'model.c'} and model.h (double): ")
    flags = ("-O3", "-c", "-fstack-usage")
    subprocess.run([compiler("gcc"), *STRICT, *flags, "model.c"], cwd=tmp_path, check=True)
    frames = [int(line.split("\t")[1]) for line in (tmp_path / "model.su").read_text().splitlines()]
    assert max(frames) < 1024
    sections = subprocess.run(["size", "-A", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    sizes = {line.split()[0]: int(line.split()[1]) for line in sections.splitlines() if line.startswith(".")}
    assert report.flash <= sum(size for name, size in sizes.items() if name.startswith(".rodata")) < report.flash + 2000
    assert sizes[".data"] == sizes[".bss"] == 0
    single = p.to_c(tmp_path / "single.c", dtype="float32")
    assert 2 * single.flash <= report.flash
    assert single.gradient_workspace == 0


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("speed */ [m/s]", "größe", "a\nb\\"), "speed * / [m/s], größe, a b/"),
        (("Förderstrom Q [m³/h]", "Öltemperatur [°C]", "圧力"), "Förderstrom Q [m³/h], Öltemperatur [°C], 圧力"),
        (("a/*b", "what??/", "x*\\"), "a/ *b, what? ?/, x* /"),
        (("a???/\r\nb", "x\u202ey\u2028z", "\ud800\x1b/"), r"a? ? ?/ b, x\u202ey\u2028z, \ud800\x1b/"),
    ],
)
def test_names_that_c_would_not_take(tmp_path, cc, names, shown):
    """They neither end a comment nor a line, nor are trigraphs; other letters are as they were (Öltemperatur was _ltemperatur)."""
    p = drawn_pair("identity", "se").predictor()
    p.feature_names = names
    p.to_c(tmp_path / "7 Öl-pumpe.c", latent=True)
    header = (tmp_path / "7 Öl-pumpe.h").read_text(encoding="utf-8")
    assert "void model_7__l_pumpe_mean(const double *x, double *mean, double *w);" in header
    assert f"   x: {shown}\n" in header
    flags = ("-c", "-O0", "-Wtrigraphs", "-Wcomment")
    subprocess.run([compiler(cc), *STRICT, *flags, "7 Öl-pumpe.c"], cwd=tmp_path, check=True)


def test_other_types_and_endings_are_refused(tmp_path):
    p = drawn_pair("identity", "se").predictor()
    with pytest.raises(InputError, match="'float64' or 'float32'; got 'float16'"):
        p.to_c(tmp_path / "model.c", dtype="float16")
    with pytest.raises(InputError, match=r"ends in \.c; got 'model\.cpp'"):
        p.to_c(tmp_path / "model.cpp")
