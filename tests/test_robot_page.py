"""docs/robot.md and the examples it names: every Python block runs as written, the loop ticks, the C++ program predicts the same."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from manifoldgp import ManifoldGPRegressor, Single
from manifoldgp.predictor import Predictor

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "robot.md"


def test_python_blocks_run_as_written(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))  # the page sets it; put back afterwards
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 8
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    np.testing.assert_allclose(names["mean"], names["model"].predict(names["X"][:1]), rtol=1e-7)
    assert "of 100 deadlines missed" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"model.npz", "model.onnx", "model.c", "model.h"}


def test_files_that_the_page_names_exist():
    for name in set(re.findall(r"(?:examples|benchmarks|tests)/[\w/]+\.(?:py|cpp|c)\b", PAGE.read_text(encoding="utf-8"))):
        assert (ROOT / name).is_file(), name


@pytest.fixture
def control_loop(monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))  # the example sets them; put back afterwards
    spec = importlib.util.spec_from_file_location("control_loop", ROOT / "examples" / "control_loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_loop_ticks(control_loop, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["control_loop.py", "--model", str(tmp_path / "arm.npz"), "--ticks", "30"])
    monkeypatch.setattr(control_loop.fit_arm, "__defaults__", (80,))
    control_loop.main()
    assert re.search(r"median \d+ us.* of 30 deadlines missed", capsys.readouterr().out)
    p = Predictor.load(tmp_path / "arm.npz")
    x = np.array([[0.5, 0.5]])
    mean, std = p(x, return_std=True)
    assert abs(mean[0] - control_loop.arm_torque(0.5, 0.5)) < 5 * std[0]


def test_the_cpp_program_predicts_the_same(tmp_path):
    root = os.environ.get("ONNXRUNTIME_ROOT")
    if not root or not shutil.which("cmake"):
        pytest.skip("needs cmake and ONNXRUNTIME_ROOT, a folder with ONNX Runtime's include and lib; not set")
    from manifoldgp.predictor.onnx import export_onnx

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = ManifoldGPRegressor(features=(4, 2), averaging=Single(restarts=1, max_iter=10))
    model.fit(X, np.stack([np.sin(X[:, 0]), X[:, 1]], 1) + 0.1 * rng.normal(size=(40, 2)))
    export_onnx(model, tmp_path / "model.onnx")
    build = ["cmake", "-S", str(ROOT / "examples" / "cpp"), "-B", str(tmp_path / "build"), f"-DONNXRUNTIME_ROOT={root}"]
    subprocess.run(build, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    program = str(tmp_path / "build" / "predict")
    done = subprocess.run([program, "model.onnx", "0.1", "-0.2", "--ticks", "20"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *moments, timing = done.stdout.splitlines()
    expected = np.concatenate(model.predict([[0.1, -0.2]], return_std=True))
    np.testing.assert_allclose(np.array([line.split() for line in moments], dtype=float).T, expected, rtol=1e-9)
    assert "of 20 deadlines missed" in timing
    wrong = subprocess.run([program, "model.onnx", "0.1"], cwd=tmp_path, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr.strip()) == (1, "The model has 2 inputs, and 1 came.")


def test_the_c_program_predicts_the_same(tmp_path):
    if not shutil.which("cmake") or not shutil.which("cc"):
        pytest.skip("needs cmake and a C compiler; not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = ManifoldGPRegressor(features=(4, 2), averaging=Single(restarts=1, max_iter=10))
    model.fit(X, np.stack([np.sin(X[:, 0]), X[:, 1]], 1) + 0.1 * rng.normal(size=(40, 2)))
    model.predictor().to_c(tmp_path / "model.c", gradient=True)
    build = ["cmake", "-S", str(ROOT / "examples" / "c"), "-B", str(tmp_path / "build"), f"-DMODEL_DIR={tmp_path}"]
    subprocess.run(build, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    program = str(tmp_path / "build" / "predict")
    done = subprocess.run([program, "0.1", "-0.2"], capture_output=True, text=True, check=True)
    found = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    expected = np.concatenate(model.predict([[0.1, -0.2]], return_std=True))
    np.testing.assert_allclose(found[:, :2].T, expected, rtol=1e-9)
    p, h = model.predictor(), 1e-5 * np.eye(2)
    x = np.array([[0.1, -0.2]])
    slopes = [(p(x + step) - p(x - step))[0] / 2e-5 for step in h]
    np.testing.assert_allclose(found[:, 2:].T, slopes, rtol=1e-6, atol=1e-8)
    wrong = subprocess.run([program, "0.1"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr.strip()) == (1, "The model has 2 inputs, and 1 came.")


def test_the_sketch_compiles_against_a_board_of_stubs(tmp_path):
    if not shutil.which("g++") or not shutil.which("gcc"):
        pytest.skip("needs gcc and g++; not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = ManifoldGPRegressor(features=(4, 2), averaging=Single(restarts=1, max_iter=5)).fit(X, X[:, 0])
    model.predictor().to_c(tmp_path / "model.c", dtype="float32")
    stubs = "struct { void begin(int) {} template <class T> void print(T) {} template <class T> void println(T) {} } Serial;\n"
    stubs += "const int A0 = 0;\nint analogRead(int) { return 1; }\nunsigned long micros() { return 0; }\nvoid delay(int) {}\n"
    sketch = (ROOT / "examples" / "esp32" / "esp32.ino").read_text(encoding="utf-8")
    (tmp_path / "sketch.cpp").write_text(
        stubs + sketch + "\nint main() { setup(); loop(); return mean[0] == mean[0] ? 0 : 1; }\n"
    )
    subprocess.run(["gcc", "-std=c99", "-Wdouble-promotion", "-Werror", "-c", "model.c"], cwd=tmp_path, check=True)
    subprocess.run(
        ["g++", "-Wall", "-Wextra", "-Werror", "-o", "sketch", "sketch.cpp", "model.o", "-lm"], cwd=tmp_path, check=True
    )
    subprocess.run([str(tmp_path / "sketch")], check=True)
