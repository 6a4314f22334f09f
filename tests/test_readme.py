"""Every Python block of the README runs as written, one after the other."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

README = Path(__file__).resolve().parents[1] / "README.md"


def test_python_blocks_run_as_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    table.assign(y=np.sin(table["a"]) + 0.1 * rng.normal(size=40)).to_csv("data.csv", index=False)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 2
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert "of the weight" in capsys.readouterr().out
    assert (tmp_path / "step.mgp").is_file()


def test_make_targets_named_in_the_readme_exist():
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^ {4}make (\w+)", README.read_text(encoding="utf-8"), re.M)):
        assert re.search(rf"^{target}:", makefile, re.M), target
