"""Files that were forged, with digests that fit: refused by a FileFormatError within 2 seconds and 1 GiB beyond their size, or as good as others."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch

import manifoldgp
from drawn_estimators import drawn_estimator
from manifoldgp import GPRegressor, Predictor, Sparse, Stack, features
from manifoldgp._system import tensor_file
from manifoldgp._system.bounded_json import DEEPEST, MOST_VALUES, dump, parse
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators.size_limit import FREE_ELEMENTS, SizeLimit
from manifoldgp.model import Model
from manifoldgp.training.processes import packed, unpacked
from manifoldgp.warping import TanhWarping
from programmes import mutated_files
from programmes.cases import Tally, one_case

HUGE = 400_000_000


def forged(path, change, number=0):
    """A model file whose header and tensors were changed, with a checksum that fits."""
    path.write_bytes(mutated_files.model_files()[number])
    header, tensors = tensor_file.read(path)
    change(header, tensors)
    tensor_file.write(path, header, tensors)
    return path


def described(name, **fields):
    return {"class": name, "fields": fields}


def of_model(part, value):
    """A change that gives the model another part."""
    return lambda header, tensors: header["ensembles"][0]["models"][0]["fields"].update({part: value})


def scaled(name, factor):
    return lambda header, tensors: tensors.update({name: tensors[name] * factor})


IDENTITY = described("features.Identity")
DOUBLING = described("features.Chain", parts=[described("features.Concatenate", parts=[IDENTITY, IDENTITY])] * 40)


@pytest.mark.parametrize(("change", "message"), [
    (of_model("kernel", described("kernels.SpectralMixture", components=HUGE)), "tensor of 800000000 elements, far more than its own"),
    (of_model("features", described("features.RandomEmbedding", q=HUGE)), "elements, far more than its own"),
    (of_model("warping", described("warping.TanhWarping", terms=HUGE)), "TanhWarping takes at most 100 terms; got 400000000"),
    (of_model("features", described("features.Linear", q=HUGE, bias=True)), "elements, far more than its own"),
    (of_model("features", DOUBLING), "elements, far more than its own"),
    (of_model("kernel", described("kernels.SpectralMixture", components=10**30)), "is incomplete or inconsistent .*expand"),
    (scaled("y.scale", np.nan), "'y.scale' should be finite"),
    (scaled("x.scale", 0.0), "'x.scale' should be finite and positive"),
    (scaled("ensemble0.block0.alpha", 1e200), "alpha' should be below 1e50 in size"),
    (scaled("ensemble0.X", np.inf), "'ensemble0.X' should be finite"),
    (scaled("ensemble0.block0.values.kernel.lengthscale", -1.0), "lengthscale' should be finite and positive"),
    (scaled("ensemble0.block0.jitter", np.nan), "'jitter' should be finite and not negative"),
    (scaled("ensemble0.block0.L", -1.0), "positive diagonal"),
    (scaled("ensemble0.block0.log_weights", np.nan), "'log_weights' should be logarithms"),
    (lambda header, tensors: tensors["ensemble0.block0.log_weights"].add_(0.5), "weights of all members should sum to one"),
    (lambda header, tensors: header["ensembles"][0].update(variance_factors=[-1.0]), "variance factors should be positive"),
    (lambda header, tensors: header["ensembles"][0].update(scale=float("nan")), "Scale and variance factors should be positive"),
    (lambda header, tensors: header["ensembles"][0].update(variance_factors=[1e308], scale=1e100),
     "does not predict finite numbers at its own training rows"),
    (lambda header, tensors: header["ensembles"][0].update(scale=1e308), "is incomplete or inconsistent .*OverflowError"),
    (lambda header, tensors: header.update(method="magic"), "method 'magic'.* is unknown"),
    (lambda header, tensors: header.update(flat="yes"), "is unknown"),
    (lambda header, tensors: header.update(starts=[[10**30] * 10]), "is incomplete or inconsistent"),
])  # fmt: skip
def test_what_a_forged_model_says_is_held_against_its_tensors(tmp_path, change, message):
    path = forged(tmp_path / "forged.mgp", change)
    with pytest.raises(FileFormatError, match=message):
        manifoldgp.load(path)


def first_ensemble(**named):
    return lambda header, tensors: header["ensembles"][0].update(named)


@pytest.mark.parametrize(("change", "message"), [
    (first_ensemble(certainty=[0.0, 0.5]), r"a power between 0 and 8, in a share of at most 1; the file says \[0.0, 0.5\]"),
    (first_ensemble(certainty=[-1.0, 0.5]), "a power between 0 and 8"),
    (first_ensemble(certainty=[float("nan"), 0.5]), "a power between 0 and 8"),
    (first_ensemble(certainty=[10**30, 0.5]), "a power between 0 and 8"),
    (first_ensemble(certainty=[1.0, 0.0]), "a share of at most 1"),
    (first_ensemble(certainty=[1.0, 1.5]), "a share of at most 1"),
    (first_ensemble(certainty=["1.0", 0.5]), "the file says"),
    (first_ensemble(certainty=[True, 0.5]), "the file says"),
    (first_ensemble(certainty=1.0), "the file says 1.0"),
    (lambda header, tensors: tensors.pop("ensemble0.block0.usual"), "no tensor 'usual'"),
    (scaled("ensemble0.block0.usual", np.nan), "'usual' should be logarithms of variances"),
    (scaled("ensemble0.block0.usual", 1e300), "'usual' should be logarithms of variances"),
    (lambda header, tensors: tensors.update({"ensemble0.block0.usual": torch.zeros(90, dtype=torch.float64)}), "'usual' should be torch.float64 of shape"),
])  # fmt: skip
def test_how_weights_follow_variances_is_held_against_the_members(tmp_path, change, message):
    path = forged(tmp_path / "forged.mgp", change, number=3)
    with pytest.raises(FileFormatError, match=message):
        manifoldgp.load(path)


@pytest.fixture(scope="module")
def of_a_table(tmp_path_factory):
    """A model file of a table with dates, many levels and missing values."""
    rows = np.arange(36)
    table = pd.DataFrame(
        {
            "place": [f"p{i % 12}" for i in rows],
            "day": pd.date_range("2020-01-01", periods=36),
            "x": np.where(rows == 3, np.nan, rows),
        }
    )
    path = tmp_path_factory.mktemp("table") / "m"
    GPRegressor(restarts=1, max_iter=1, missing="impute").fit(table, np.sin(rows / 5)).save(path)
    return path


@pytest.mark.parametrize(("column", "change"), [
    (1, lambda column: column["time"].update(origin=False)), (1, lambda column: column["time"].update(origin="yesterday")),
    (0, lambda column: column["effects"].update(curves=[HUGE])), (0, lambda column: column["effects"].update(curves=[-1])),
    (0, lambda column: column["effects"]["shifts"].__setitem__(0, [float("nan")])), (0, lambda column: column["effects"]["shifts"].pop()),
    (2, lambda column: column.update(name="another")), (None, lambda table: table["donors"].__setitem__(0, [1.0])), (None, lambda table: table["donors"][0].__setitem__(0, "text")),
])  # fmt: skip
def test_what_a_forged_table_says_is_held_against_its_model(of_a_table, tmp_path, column, change):
    assert np.isfinite(
        manifoldgp.load(of_a_table).predict(pd.DataFrame({"place": ["p1"], "day": ["2020-01-05"], "x": [np.nan]}))
    ).all()
    header, tensors = tensor_file.read(of_a_table)
    change(header["table"] if column is None else header["table"]["columns"][column])
    tensor_file.write(tmp_path / "forged", header, tensors)
    with pytest.raises(FileFormatError):
        manifoldgp.load(tmp_path / "forged")


def test_a_forged_checkpoint_is_not_kept(tmp_path):
    """Or fitting a loaded model again would write where the file says."""

    def forge(header, tensors):
        header["settings"]["items"]["method"] = described("method.Sparse", checkpoint="/somewhere/else", inducing=3)
        header["settings"]["items"]["callback"] = "somewhere.else"

    model = manifoldgp.load(forged(tmp_path / "forged.mgp", forge))
    assert model.method.checkpoint is None
    assert model.method.inducing == 3
    assert model.callback is None


@pytest.mark.parametrize("levels", [DEEPEST + 1, 5_000, 200_000])
def test_deep_json_is_refused(levels):
    with pytest.raises(ValueError, match="inside"):
        parse("[" * levels + "]" * levels)


def test_json_with_too_many_values_is_refused_before_it_is_parsed():
    with pytest.raises(ValueError, match="at most 4000000 are read"):
        parse("[" + "[]," * MOST_VALUES + "[]]")


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    deep = 0
    for _ in range(DEEPEST - 1):
        deep = [deep]
    assert parse(dump(deep)) == deep
    with pytest.raises(InputError, match="cannot be written to a file: its description has more than 200 lists or tables"):
        tensor_file.write(tmp_path / "model.mgp", {"deep": [deep]}, {})
    assert not list(tmp_path.iterdir())


def test_tensors_are_limited_before_they_are_made():
    with SizeLimit(10), pytest.raises(FileFormatError, match="damaged or forged"):
        torch.zeros(10**6, 10**6)  # 8 TB
    with SizeLimit(10), pytest.raises(FileFormatError, match="damaged or forged"):
        torch.eye(10**6)
    with SizeLimit(10):
        assert torch.zeros(1000, 1000).numel() < FREE_ELEMENTS


def archive(path, change=None, arrays=None, write=np.savez, whole=None):
    """A predictor file with another header, or with other arrays. whole: where the file is that is changed; None: a small one."""
    with np.load(whole or io.BytesIO(mutated_files.predictor_files()[0])) as kept:
        parts = {name: kept[name] for name in kept.files}
    header = json.loads(parts.pop("header").tobytes())
    if change is not None:
        change(header)
    parts.update(arrays or {})
    write(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **parts)
    return path


def appended(header, *instructions):
    """A program that goes on after its outputs, and mixes what it makes into the mean."""
    header["instructions"] += [list(instruction) for instruction in instructions]
    header["outputs"]["mean"] = instructions[-1][2]


@pytest.mark.parametrize(("change", "arrays", "message"), [
    (lambda h: h["facts"].update(x_scale=[0.0] * 3), {}, "x_scale should be finite and positive"),
    (lambda h: h["facts"].update(x_scale=[float("nan")] * 3), {}, "x_scale should be finite and positive"),
    (lambda h: h["facts"].update(x_offset=[1.0]), {}, "one finite number for each input"),
    (lambda h: h["facts"].update(n_outputs=-1), {}, "number of targets should be at least 1"),
    (lambda h: h["facts"].update(feature_names=["a"]), {}, "feature_names should be 3 names"),
    *[(lambda h, names=names: h["facts"].update(target_names=names), {}, "target_names should be 1 names, or none")
      for names in (5, None, "abc", "y", ["a", "b", "c"], [1], {"y": 1})],
    (lambda h: h["facts"].pop("table"), {}, "The file lacks table"),
    (lambda h: h.update(row_bytes=0), {}, "lacks outputs"),
    (lambda h: h.update(instructions=h["instructions"][:1] * 2), {}, "inconsistent at slot"),
    (None, {"slot-5": np.zeros(3)}, "numbered from 1"),
    (None, {"slot900": np.array([np.nan])}, "not all constants are finite"),
    (None, {"slot900": np.array(["text"])}, "arrays of <U4 are not read"),
    (lambda h: appended(h, ["add", [900, 901], 902, {}], ["mix", [902, 902], 903, {}]),
     {"slot900": np.zeros((30_000, 1)), "slot901": np.zeros((1, 30_000))}, "makes up to 900000000 numbers by 'add'"),
    (lambda h: appended(h, ["pick", [h["outputs"]["mean"]], 900, {"index": "0"}]), {}, "is no setting"),
    (lambda h: h["outputs"].update(mean=h["outputs"]["std"], std=1), {}, "should give finite numbers as std"),
    (lambda h: h["facts"]["mixture"].update(owner=[1]), {}, "should be of 1 targets, counted from 0"),
    (lambda h: h["facts"]["mixture"].update(weights=[[1.0, 1.0]]), {}, "which do not fit"),
])  # fmt: skip
def test_what_a_forged_predictor_says_is_tried_out(tmp_path, change, arrays, message):
    path = archive(tmp_path / "forged.npz", change, arrays)
    with pytest.raises(FileFormatError, match=message):
        Predictor.load(path)


def drawn(name, index, value):
    """A change of one value among the facts about members."""
    return lambda mixture: mixture[name].__setitem__(index, value)


@pytest.fixture(scope="module")
def of_two_targets(tmp_path_factory):
    """The predictor of two targets, of one of which weights follow variances: three members each, with two factors."""
    path = tmp_path_factory.mktemp("mixture") / "whole"
    parts = [(Model(), 1), (Model(features=features.MLP((3, 2))), 2)]
    drawn_estimator(parts, targets=2, factors=(1.0, 4.0), exponents=(1.5, 0.0)).predictor().save(path)
    Predictor.load(path)
    return path


@pytest.mark.parametrize(("change", "message"), [
    *[(lambda m, name=name: m.pop(name), "The file's mixture should have factors, origins, owner, weights")
      for name in ("owner", "weights", "factors", "origins", "exponents", "following", "log_usual")],
    (lambda m: m.update(extra=1.0), "it has .*extra"),
    *[(lambda m, name=name: m.update({name: [str(number) for number in m[name]]}), "which do not fit")
      for name in ("factors", "origins", "exponents", "following", "log_usual")],
    (lambda m: m.update(weights=[[str(w) for w in row] for row in m["weights"]]), "which do not fit"),
    (drawn("exponents", 0, True), "which do not fit"), (drawn("factors", 0, float("nan")), "which do not fit"), (drawn("origins", 0, 10**400), "not a predictor file"),
    (drawn("following", 0, 3.0), "shares from 0 to 1"), (drawn("following", 0, -0.1), "shares from 0 to 1"),
    (drawn("exponents", 0, 1e300), "from 0 to 8"), (drawn("exponents", 0, -1.0), "from 0 to 8"), (drawn("log_usual", 0, 1e308), "variances that are numbers"),
    (drawn("factors", 0, 0.0), "positive factors"), (drawn("factors", 0, -1.0), "positive factors"), (lambda m: m.update(factors=[]), "which do not fit"),
    (lambda m: m.update(factors=5.0), "not a predictor file"), (lambda m: m.update(factors=[1.0]), "which do not fit"),
    (lambda m: m.update(weights=[[0.0, 0.0] for _ in m["weights"]]), "sum to one for each target"),
    (lambda m: m.update(weights=[[2.0 * w for w in row] for row in m["weights"]]), "sum to one for each target"),
    (lambda m: m.update(owner=[0] * len(m["owner"])), "each target should have some"), (drawn("owner", 0, True), "counted from 0"),
    (lambda m: m.update(owner=[*m["owner"], 0], weights=[*m["weights"], [0.0, 0.0]], log_usual=[*m["log_usual"], 0.0]), "component_means of 7 members"),
])  # fmt: skip
def test_what_a_forged_mixture_says_is_held_against_its_targets_and_members(of_two_targets, tmp_path, change, message):
    path = archive(tmp_path / "forged.npz", lambda header: change(header["facts"]["mixture"]), whole=of_two_targets)
    with pytest.raises(FileFormatError, match=message):
        Predictor.load(path)


@pytest.fixture(scope="module")
def of_a_warped_target(tmp_path_factory):
    """The predictor of a warped target: two members with a warping of two terms, and one with none."""
    path = tmp_path_factory.mktemp("warped") / "whole"
    drawn_estimator([(Model(warping=TanhWarping(2)), 2), (Model(), 1)], factors=(1.0, 4.0)).predictor().save(path)
    Predictor.load(path)
    return path


@pytest.mark.parametrize(("change", "message"), [
    *[(lambda m, name=name: m.pop(name), "all or none of .*, and of centre, height, scales, steepness") for name in ("scales", "height", "steepness", "centre")],
    *[(lambda m, name=name: m[name].pop(), "which do not fit") for name in ("scales", "height", "steepness", "centre")],
    *[(lambda m, name=name: m[name][0].pop(), "which do not fit") for name in ("height", "steepness", "centre")],
    *[(lambda m, name=name, value=value: m[name][1].__setitem__(0, value), "which do not fit")
      for name in ("height", "steepness", "centre") for value in (float("nan"), float("inf"), "1.0", True, None)],
    (drawn("scales", 0, float("nan")), "which do not fit"), (drawn("scales", 0, "1.0"), "which do not fit"), (lambda m: m.update(height=3.0), "not a predictor file"),
    (drawn("scales", 0, 0.0), "positive scales"), (drawn("scales", 0, -1.0), "positive scales"), (drawn("scales", 0, 1e-200), "positive scales"), (drawn("scales", 0, 1e200), "positive scales"),
    (lambda m: m["height"][0].__setitem__(0, -0.1), "heights from 0"), (lambda m: m["height"][0].__setitem__(0, 1e200), "heights from 0"),
    (lambda m: m["steepness"][0].__setitem__(0, 0.0), "positive steepnesses"), (lambda m: m["steepness"][0].__setitem__(1, 1e200), "positive steepnesses"),
    (lambda m: m.update({name: [numbers * 51 for numbers in m[name]] for name in ("height", "steepness", "centre")}), "have 102 terms; none has more than 100"),
    (lambda m: m.update(factors=[1.0] * 1001, weights=[[w[0] / 1001] * 1001 for w in m["weights"]]), "1001 variance factors; no model has more than 1000"),
])  # fmt: skip
def test_what_a_forged_warping_says_is_that_of_a_function_that_grows(of_a_warped_target, tmp_path, change, message):
    path = archive(tmp_path / "forged.npz", lambda header: change(header["facts"]["mixture"]), whole=of_a_warped_target)
    with pytest.raises(FileFormatError, match=message):
        Predictor.load(path)


def test_a_whole_number_of_any_size_is_a_number(of_a_warped_target, tmp_path):
    whole = archive(
        tmp_path / "whole.npz", lambda h: h["facts"]["mixture"]["centre"][0].__setitem__(0, 10**30), whole=of_a_warped_target
    )
    written = archive(
        tmp_path / "real.npz", lambda h: h["facts"]["mixture"]["centre"][0].__setitem__(0, 1e30), whole=of_a_warped_target
    )
    X = np.zeros((2, 3))
    one, other = (Predictor.load(path).mixtures(X)[0].quantile(0.3) for path in (whole, written))
    np.testing.assert_array_equal(one, other)


def test_what_would_not_be_read_again_is_no_setting():
    assert TanhWarping(100).terms == 100
    with pytest.raises(InputError, match="at most 100 terms; got 101"):
        TanhWarping(101)
    Stack(variance_factors=(1.0,) * 999).check()  # few rows in order have one more
    with pytest.raises(InputError, match="fewer than 1000; got 1000"):
        Stack(variance_factors=(1.0,) * 1000).check()


@pytest.mark.parametrize("output", ["component_means", "component_variances"])
def test_a_program_that_gives_no_members_tells_of_no_mixtures(of_two_targets, tmp_path, output):
    path = archive(tmp_path / "forged.npz", lambda header: header["outputs"].pop(output), whole=of_two_targets)
    with pytest.raises(FileFormatError, match="its program gives none"):
        Predictor.load(path)


def test_a_compressed_predictor_is_refused_whatever_it_would_grow_to(tmp_path):
    path = archive(tmp_path / "bomb.npz", arrays={"slot900": np.zeros(20_000_000)}, write=np.savez_compressed)
    assert path.stat().st_size < 10**6
    with pytest.raises(FileFormatError, match="predictors are not compressed"):
        Predictor.load(path)


def test_an_array_that_announces_more_than_its_bytes_is_refused(tmp_path):
    path = archive(tmp_path / "forged.npz")
    header = (
        b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }".ljust(117) + b"\n"
    )
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("slot900.npy", header)
    with pytest.raises(FileFormatError, match=r"shape \(99999999999,\) was announced"):
        Predictor.load(path)


@pytest.mark.parametrize("area", list(mutated_files.AREAS))
def test_mutations_are_refused_or_as_good_as_others(area):
    """Sixty of those that `make fuzz` draws without end."""
    tally = Tally()
    for case in range(60):
        one_case(area, mutated_files.AREAS[area], 0, case, tally)
    assert tally.failures == []
    assert tally.outcomes["refused"] > 30
    assert tally.outcomes["loaded"] > 0


def test_messages_between_processes_hold_plain_data_and_numbers_alone():
    arrays = [np.arange(6.0).reshape(2, 3), np.zeros((0, 4)), np.array([True]), np.asfortranarray(np.eye(2))]
    plain, back = unpacked(packed({"a": [1, None, "ü"]}, arrays))
    assert plain == {"a": [1, None, "ü"]}
    for one, other in zip(arrays, back, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(TypeError):
        packed(Sparse(), [])
    with pytest.raises(ValueError, match="only numbers are sent"):
        unpacked(packed(None, [np.array([object()])]))
