"""``mgp bench``: how fast fits and predictions are on this machine, beside scikit-learn's Gaussian process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from manifoldgp._system.plain_text import counted
from manifoldgp.cli._messages import Messages, output, print_json
from manifoldgp.cli._options import Json, Quiet

_TEST_ROWS = 1000
_STARTS = 5


def bench(
    rows: Annotated[
        list[int] | None, typer.Option(help="Training rows; can be repeated. By default 100, 200 and 400.", min=10)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure fits and predictions here, beside scikit-learn's GP.

    On the example's data; scikit-learn's GP and GPRegressor have as many starts. About a minute.

    The project's own benchmarks, with data sets and other libraries, are in its repository: python benchmarks/evaluation.py
    """
    messages = Messages(quiet)
    results = []
    for N in rows or (100, 200, 400):
        for name, make in _estimators().items():
            messages.note(f"{counted(N, 'row')}, {name} ...")
            results.append({"rows": N, "estimator": name} | _measure(make, N, messages))
    if json:
        print_json({"test_rows": _TEST_ROWS, "starts": _STARTS, "results": results})
    else:
        _show(results)


def _estimators() -> dict[str, Callable[[], Any]]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    from manifoldgp import GPRegressor, ManifoldGPRegressor

    def scikit_learn() -> Any:
        lengthscales: Any = [1.0] * 3  # one an input; scikit-learn's annotation knows one number only
        kernel = ConstantKernel() * RBF(lengthscales) + WhiteKernel()
        return GaussianProcessRegressor(kernel, n_restarts_optimizer=_STARTS - 1, normalize_y=True, random_state=0)

    return {
        "scikit-learn GP": scikit_learn,
        "GPRegressor": lambda: GPRegressor(restarts=_STARTS),
        "mGP, fast": lambda: ManifoldGPRegressor(averaging="fast"),
        "mGP, stack": ManifoldGPRegressor,
    }


def _measure(make: Callable[[], Any], N: int, messages: Messages) -> dict[str, float]:
    """Seconds of one fit, and of one prediction with standard deviations for the test rows; RMSE on them."""
    import warnings

    from manifoldgp.metrics import rmse

    (X, y), (X_test, y_test) = _arrays(N, 0), _arrays(_TEST_ROWS, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's optimiser comments on every bound that it meets
        begin = time.perf_counter()
        model = make().fit(X, y)
        fitted = time.perf_counter()
        mean, _ = model.predict(X_test, return_std=True)
    return {"fit_seconds": fitted - begin, "predict_seconds": time.perf_counter() - fitted, "rmse": rmse(y_test, mean)}


def _arrays(rows: int, seed: int) -> tuple[Any, Any]:
    import numpy as np

    from manifoldgp.data import example_table

    table = example_table(rows, seed)
    X = np.column_stack([table["x1"], table["x2"], np.array(table["surface"]) == "soft"]).astype(float)
    X = (X - [5.0, 5.0, 0.5]) / [3.0, 3.0, 0.5]  # scikit-learn's GP does not standardise inputs
    return X, np.array(table["y"])


def _show(results: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("rows", "", "fit, s", f"predict {_TEST_ROWS}, s", "RMSE"):
        table.add_column(name, justify="left" if not name else "right")
    for i, r in enumerate(results):
        first = i == 0 or results[i - 1]["rows"] != r["rows"]
        table.add_row(
            str(r["rows"]) if first else "",
            r["estimator"],
            f"{r['fit_seconds']:.2f}",
            f"{r['predict_seconds']:.3f}",
            f"{r['rmse']:.4f}",
        )
    output().print(table)
