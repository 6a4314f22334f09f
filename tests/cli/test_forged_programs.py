"""Programs in model files that were forged, with checksums that fit: the commands that use them refuse them as files that are wrong, in words and soon."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
import torch

from command_line import fails, mgp
from manifoldgp._system import tensor_file
from manifoldgp.cli._answers import open_answers
from manifoldgp.errors import FileFormatError
from programmes.mutated_files import with_checksum


@pytest.fixture(scope="module")
def warped(tmp_path_factory):
    """A folder with data.csv, and model.mgp of its warped target; the program predicts it."""
    folder = tmp_path_factory.mktemp("warped")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)}).assign(y=lambda t: np.exp(t.a + 0.3 * t.b))
    table.to_csv(folder / "data.csv", index=False)
    single = ("--averaging", "single", "--restarts", "1", "--max-iter", "10", "--quiet")
    mgp("fit", folder / "data.csv", "--target", "y", "--target-warping", "tanh", *single, "--out", folder / "model.mgp")
    mgp("predict", folder / "model.mgp", folder / "data.csv", "--out", folder / "p.csv")
    return folder


def of_facts(**named):
    return lambda header, tensors: header["program"]["facts"].update(named)


def of_mixture(change):
    return lambda header, tensors: change(header["program"]["facts"]["mixture"])


def without(*place):
    def change(header, tensors):
        *path, last = place
        for name in path:
            header = header[name]
        del header[last]

    return change


MIXTURE = ("program", "facts", "mixture")
FORGERIES = {
    "no spread": (of_mixture(lambda m: m.update(scales=[0.0])), "positive scales"),
    "falling": (of_mixture(lambda m: m["steepness"][0].__setitem__(0, -1.0)), "positive steepnesses"),
    "height of nothing": (of_mixture(lambda m: m["height"][0].__setitem__(0, None)), "which do not fit"),
    "height without terms": (of_mixture(lambda m: m.update(height=[None])), "TypeError"),
    "no scales": (without(*MIXTURE, "scales"), "all or none of"),
    "no height": (without(*MIXTURE, "height"), "all or none of"),
    "no owner": (of_mixture(lambda m: m.update(owner="x")), "counted from 0"),
    "many factors": (of_mixture(lambda m: m.update(factors=[1.0] * 300_000, weights=[[1.0 / 300_000] * 300_000])), "300000 variance factors"),
    "many terms": (of_mixture(lambda m: m.update({name: [[1.0] * 20_000] for name in ("height", "steepness", "centre")})), "20000 terms"),
    "many targets": (of_facts(n_outputs=10**9, flat=False, target_names=[]), "of 1000000000 targets"),
    "two targets": (of_facts(n_outputs=2, flat=False, target_names=[]), "of 2 targets"),
    "no mixture": (of_facts(mixture=None), "no distributions"),
    "no facts": (without("program", "facts"), "KeyError: 'facts'"),
    "facts of nothing": (lambda header, tensors: header["program"].update(facts=3), "TypeError"),
    "no program": (lambda header, tensors: header.update(program=3), "TypeError"),
    "other inputs": (of_facts(x_offset=[0.0], x_scale=[1.0]), "feature_names should be 1 names"),
    "names of targets": (of_facts(target_names="abc"), "target_names should be 1 names"),
    "no table": (without("table"), "KeyError: 'table'"),
    "table of other targets": (lambda header, tensors: header["table"].update(targets=["y", "z"]), "2 inputs and 2 targets; its model has 2 and 1"),
    "table of other inputs": (lambda header, tensors: header["table"]["columns"].pop(), "1 input and 1 target; its model has 2 and 1"),
    "no scale of y": (lambda header, tensors: tensors.pop("y.scale"), "KeyError: 'y.scale'"),
    "two scales of y": (lambda header, tensors: tensors.update({"y.scale": torch.ones(2)}), "'y.scale' should be one finite and positive"),
    "a scale of zero": (lambda header, tensors: tensors.update({"y.scale": torch.zeros(1)}), "'y.scale' should be one finite and positive"),
    "constants of nothing": (lambda header, tensors: tensors.update({"program.900": torch.full((1,), torch.nan).double()}), "not all constants are finite"),
    "constants of other kinds": (lambda header, tensors: tensors.update({"program.900": torch.zeros(1, dtype=torch.bfloat16)}), "bfloat16"),
}  # fmt: skip


def forged(folder, path, change):
    header, tensors = tensor_file.read(folder / "model.mgp")
    change(header, tensors)
    path.write_bytes(with_checksum(json.dumps(header), tensors))
    return path


@pytest.mark.parametrize("name", list(FORGERIES))
def test_a_forged_program_is_refused_when_the_file_is_opened(warped, tmp_path, name):
    change, message = FORGERIES[name]
    path = forged(warped, tmp_path / "forged.mgp", change)
    begin = time.process_time()
    with pytest.raises(FileFormatError, match=message) as told:
        open_answers(path)
    assert time.process_time() - begin < 2.0
    assert "forged.mgp" in str(told.value)


ROWS = {
    "no rows": lambda header, tensors: tensors.pop("ensemble0.X"),
    "rows of other columns": lambda header, tensors: tensors.update({"ensemble0.X": torch.zeros(30, 1).double()}),
    "rows without targets": lambda header, tensors: tensors.update({"ensemble0.y": torch.zeros(29).double()}),
    "no unit": lambda header, tensors: header["ensembles"][0].update(scale=0.0),
    "a place of nothing": lambda header, tensors: tensors.update({"x.place": torch.zeros(2).double()}),
    "no ensembles": lambda header, tensors: header.update(ensembles=[]),
}


@pytest.mark.parametrize("name", list(ROWS))
def test_forged_rows_of_the_fit_are_refused_where_they_are_asked_for(warped, tmp_path, name):
    path = forged(warped, tmp_path / "forged.mgp", ROWS[name])
    with pytest.raises(FileFormatError, match="forged.mgp"):
        open_answers(path, rows=True)
    assert open_answers(path).one_core  # predictions alone do without


@pytest.mark.parametrize("command", ["predict", "score"])
def test_commands_tell_of_a_forged_program_in_a_line(warped, tmp_path, command):
    path = forged(warped, tmp_path / "forged.mgp", FORGERIES["no spread"][0])
    assert "forged.mgp: The file's warpings should have positive scales" in fails(command, path, warped / "data.csv")


def test_a_program_that_was_not_changed_is_read(warped, tmp_path):
    answers = open_answers(forged(warped, tmp_path / "same.mgp", lambda header, tensors: None))
    assert answers.one_core  # the program, and not the model
