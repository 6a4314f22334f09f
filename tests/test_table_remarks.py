"""What Python says of a frame that may not be meant as it is, as the command line says it of a file."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from command_line import mgp
from manifoldgp import GPRegressor
from manifoldgp.errors import FitWarning

QUICK = {"restarts": 1, "max_iter": 3}


def table(rows: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"x": rng.normal(size=rows).round(2), "floor": rng.choice(["ice", "sand"], rows), "y": rng.normal(size=rows).round(2)}
    )


def told(frame: pd.DataFrame, **fit: object) -> list[str]:
    """What a fit warns of, apart from its end."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        GPRegressor(**QUICK).fit(frame.drop(columns="y"), frame["y"], **fit)
    return [str(one.message) for one in found if issubclass(one.category, FitWarning) and "max_iter" not in str(one.message)]


def copied() -> pd.DataFrame:
    frame = pd.concat([table(), table().iloc[[2, 5]]], ignore_index=True)
    frame.loc[[1, 3], "floor"] = "Ice"
    return frame


def test_copies_of_rows_and_spellings_are_told_of_a_frame():
    """The command line alone had said so."""
    categories, copies = told(copied())
    assert categories == "floor: categories that differ only in capitals or spaces count as different ones: 'Ice' and 'ice'"
    assert copies.startswith("2 of 32 rows are copies of others, inputs and targets alike")
    assert told(table()) == []
    grouped = told(copied(), groups=np.arange(32))  # which hold copies out together
    assert grouped[0] == categories
    assert not any("copies" in text for text in grouped)
    unlabelled = copied()
    unlabelled.loc[[2, 5], "y"] = np.nan
    assert [text.split(":")[0] for text in told(unlabelled)] == [
        "floor",
        "2 of 32 rows have a missing target (NaN) and are left out of the fit.",
    ]


def test_repeated_inputs_and_a_copy_of_the_target_are_told_of_a_frame():
    again = pd.concat([table(12)] * 3, ignore_index=True).assign(y=np.random.default_rng(1).normal(size=36))
    [repeated] = told(again)
    assert repeated.startswith("36 rows have 12 different inputs")
    assert "groups= holds them out together" in repeated
    [same] = told(table().assign(z=lambda frame: frame["y"]))
    assert same.endswith("leave them out: X.drop(columns=['z'])")


def test_a_total_below_a_frame_is_told():
    """read_table would have left it out; what pandas has read is learned from as it is."""
    frame = table().assign(name=[f"p{k}" for k in range(30)])
    total = {"name": "Total", "floor": "ice", **frame[["x", "y"]].sum()}
    remarks = told(pd.concat([frame, pd.DataFrame([total])], ignore_index=True))
    assert (
        "1 row (Total) at the end of the table holds sums or means of the rows above, and is learned from like any other. Remove it, if it is no row of its own."
        in remarks
    )


def test_the_command_line_says_it_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copied().to_csv("data.csv", index=False)
    said = mgp("fit", "data.csv", "-t", "y", "--averaging", "plain", "--max-iter", "3", "--out", "m.mgp").err
    assert said.count("differ only in capitals") == said.count("are copies of others") == 1
    said = mgp("compare", "data.csv", "-t", "y", "--models", "mean,linear").err
    assert said.count("differ only in capitals") == said.count("are copies of others") == 1


@pytest.mark.parametrize("cells", [["-", "yes", "no"] * 10])
def test_a_sign_that_is_a_category_is_told_of_a_frame(cells):
    assert told(table().assign(floor=cells)) == [
        "floor: '-' counts as a category like any other. If it means that nothing is known, leave these cells empty."
    ]
