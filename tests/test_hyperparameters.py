"""What a fit learned as a table in the data's units, intervals of any level, and weights of rows that are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from manifoldgp import Fast, GPRegressor, ManifoldGPRegressor, Single, SquaredExponential
from manifoldgp.errors import InputError

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"load [N]": 100 * RNG.normal(size=80), "speed": 0.01 * RNG.normal(size=80), "kind": RNG.choice(["a", "b"], 80)}
)
WEAR = pd.Series(50.0 * np.sin(TABLE["load [N]"] / 100) + 5.0 * RNG.normal(size=80) + 1000.0, name="wear")
QUICK = {"restarts": 2, "max_iter": 60}


def test_parameters_are_in_the_units_of_the_data():
    model = GPRegressor(**QUICK, mean="constant").fit(TABLE, WEAR)
    rows = {(row.name, row.input): row for row in model.parameters()}
    assert rows["noise.sd", ""].value == pytest.approx(5.0, rel=0.4)
    assert rows["noise.sd", ""].unit == rows["mean.constant", ""].unit == "wear"
    assert 20 < rows["kernel.lengthscale", "load [N]"].value < 1000  # sin(load / 100)
    assert rows["kernel.lengthscale", "load [N]"].unit == "load [N]"
    assert rows["mean.constant", ""].value == pytest.approx(1000.0, abs=100.0)
    other = GPRegressor(**QUICK, mean="constant").fit(TABLE.assign(speed=1000 * TABLE["speed"]), 3.0 * WEAR)
    again = {(row.name, row.input): row.value for row in other.parameters()}
    assert again["kernel.sd", ""] == pytest.approx(3.0 * rows["kernel.sd", ""].value, rel=1e-3)
    assert again["kernel.lengthscale", "speed"] == pytest.approx(1000.0 * rows["kernel.lengthscale", "speed"].value, rel=1e-2)


def test_groups_targets_and_parts_without_units_are_told_apart():
    model = ManifoldGPRegressor(averaging=Fast()).fit(TABLE, np.c_[WEAR, -WEAR])
    table = model.parameters()
    assert {row.target for row in table} == {"y0", "y1"}
    for target in ("y0", "y1"):
        weights = {row.group: row.weight for row in table if row.target == target}
        assert sum(weights.values()) == pytest.approx(1.0)
    assert any(row.unit == "count" and row.name.startswith("features: numbers in ") for row in table)
    frame = table.to_frame()
    assert len(frame) == len(table) == len(str(table).splitlines()) - 1
    warped = GPRegressor(SquaredExponential() + SquaredExponential(), target_warping="tanh", restarts=1, max_iter=5).fit(
        TABLE, WEAR
    )
    units = {row.name: row.unit for row in warped.parameters()}
    assert units["noise.sd"] == units["kernel.0.variance"] == "standardised"
    strange = GPRegressor(**QUICK).fit(TABLE.rename(columns={"speed": "<b>"}), WEAR).parameters()._repr_html_()
    assert "&lt;b&gt;" in strange
    assert "<b>" not in strange


def test_intervals_of_any_level():
    model = GPRegressor(**QUICK).fit(TABLE, WEAR)
    for level in (0.5, 0.8, 0.99):
        mean, interval = model.predict(TABLE, interval=level)
        np.testing.assert_array_equal(mean, model.predict(TABLE))
        np.testing.assert_allclose(interval, model.predict_quantiles(TABLE, [(1 - level) / 2, (1 + level) / 2]))
        inside = model.predict_cdf(TABLE, interval[:, 1]) - model.predict_cdf(TABLE, interval[:, 0])
        np.testing.assert_allclose(inside, level, rtol=1e-6)
    two = ManifoldGPRegressor((2, 1), averaging=Single(restarts=1, max_iter=3)).fit(TABLE, np.c_[WEAR, WEAR])
    assert two.predict(TABLE, interval=0.9)[1].shape == (80, 2, 2)
    with pytest.raises(InputError, match="between 0 and 1"):
        model.predict(TABLE, interval=90)
    with pytest.raises(InputError, match="one at a time"):
        model.predict(TABLE, interval=0.9, return_std=True)


def test_weights_of_rows_are_refused_with_the_reason():
    with pytest.raises(InputError, match="sample_weight has no meaning of its own.* noise_std = sigma / sqrt"):
        GPRegressor().fit(TABLE, WEAR, sample_weight=np.ones(80))
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample_wait'"):
        GPRegressor().fit(TABLE, WEAR, sample_wait=np.ones(80))
    GPRegressor(restarts=1, max_iter=2).fit(TABLE, WEAR, sample_weight=None)
