"""The README's measured numbers are those of the pages and files that the named commands wrote.

Numbers that quick commands print are compared with what they print now, in tests/cli/test_documents.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8").replace("\n", " ").replace("−", "-")
AVERAGING, BENCHMARKS = (
    (ROOT / "docs" / name).read_text(encoding="utf-8").replace("−", "-") for name in ("averaging.md", "benchmarks/index.md")
)
RESULTS = json.loads((ROOT / "docs" / "benchmarks" / "results.json").read_text(encoding="utf-8"))


def claimed(pattern: str) -> list[float]:
    """The numbers that the README's sentence holds."""
    found = re.search(re.sub(r" +", r"\\s+", pattern), README)
    assert found, f"the README has no {pattern!r} any more: mend this test"
    return [float(number) for number in found.groups()]


def bars(pattern: str) -> list[float]:
    """What was measured for the bars whose names match."""
    return [float(m[1]) for m in re.finditer(rf"^\| {pattern} \| ([\d.]+) ", BENCHMARKS, re.M)]


def columns(table: str, column: int) -> list[float]:
    rows = re.findall(r"^\|(.*)\|$", table, re.M)[2:]
    return [float(row.split("|")[column]) for row in rows]


def times_ours(library: str) -> list[float]:
    """How many times ours another library takes for an evaluation from 400 rows on, plain and with a network."""
    table = BENCHMARKS.split("## One evaluation")[1].split("\n## ")[0]
    rows = re.findall(rf"^\| {library} \|(.*)\|$", table, re.M)
    assert rows
    return [float(times) for row in rows for cell in row.split("|")[1:] for times in re.findall(r"([\d.]+)x ours", cell)]


def test_cost_of_the_average():
    measured = bars(r'averaging="stack" against a plain GP.*?')
    assert claimed(r"costs ([\d.]+) to ([\d.]+) plain GP fits there") == [round(min(measured), 1), round(max(measured), 1)]
    honesty = columns("| data | splits |" + AVERAGING.split("| data | splits |")[1].split("\n\n")[0], -1)
    assert claimed(r"and ([\d.]+) to ([\d.]+) on the \[data sets\]") == [min(honesty), round(max(honesty))]


def test_one_evaluation():
    measured = bars("one evaluation, .*?, against potrf . potri")
    assert claimed(r"takes ([\d.]+) to ([\d.]+) times LAPACK's") == [round(min(measured), 1), round(max(measured), 1)]
    times = times_ours("GPyTorch")
    assert claimed(r"([\d.]+) to ([\d.]+) times less than GPyTorch") == [min(times), max(times)]
    (share,) = bars("fit of the step experiment, share of GPyTorch's time")
    assert claimed(r"(\d+) times less than GPyTorch\. ") == [round(1 / share)]


def test_one_prediction():
    quiet = re.findall(r"^\| Predictor \(NumPy\) \| ([\d.]+)", RESULTS["prediction"]["result"]["printed"], re.M)
    assert claimed(r"One prediction takes ([\d.]+) µs, with its standard deviation ([\d.]+) µs") == [float(v) for v in quiet]


def test_honesty_and_many_rows():
    better, worse, inside = claimed(
        r"nats a row on (\d+) %, and never more than ([\d.]+) worse; its 95 % intervals hold ([\d.]+) %"
    )
    (said,) = re.findall(
        r"better by more than 0.02\s+nats on (\d+) %, and at worst ([\d.]+) nats worse; 95 % intervals hold ([\d.]+) %", AVERAGING
    )
    assert [better, worse, inside] == [float(number) for number in said]
    (found,) = re.findall(r"36,000 rows of kin40k, .*?: (\d+) s / (-[\d.]+) / ([\d.]+) ", AVERAGING)
    seconds, nlpp, rmse = map(float, found)
    said = claimed(r"test RMSE ([\d.]+) and NLPP (-[\d.]+) \(standardised y\) in (\d+) processor seconds")
    assert said == [rmse, round(nlpp, 2), seconds]
