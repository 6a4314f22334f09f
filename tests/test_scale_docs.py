"""Every block of docs/scale.md runs as written, one after the other: Python here, commands in a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import manifoldgp

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
pytest.importorskip("distributed", reason="the page shows a Dask cluster: pip install 'manifoldgp[cluster]'")
pytest.importorskip("pyarrow", reason="the page reads Parquet files: pip install 'manifoldgp[data]'")


@pytest.mark.slow
def test_blocks_run_as_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|bash)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert [language for language, _ in blocks].count("bash") == 1
    names: dict = {"__name__": "__main__"}
    for language, block in blocks:
        if language == "bash":
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            environment = os.environ | {"PATH": path, "PYTHONPATH": str(Path(manifoldgp.__file__).parents[1])}
            done = subprocess.run(block, shell=True, env=environment, capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, done.stderr
            assert (tmp_path / "model.mgp").is_file()
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Dask's own, about ports and shutting down
                exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "inducing points" in said
    assert "features" in said
    assert names["model"].method_ == "sparse"


def test_the_bars_have_a_command():
    makefile = (PAGE.parents[1] / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^bench-scale:.*\n\t.*benchmarks/scale.py", makefile, re.M)
