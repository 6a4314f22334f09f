"""Model files: every part there and back to the last bit, no code in between, and nothing damaged accepted."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn import decomposition, manifold
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import manifoldgp
from manifoldgp import (
    Exact,
    GaussianNoise,
    GPRegressor,
    GroupSparse,
    LogNormal,
    ManifoldGPRegressor,
    Normal,
    Predictor,
    Sparse,
    Stack,
    StudentT,
    TanhWarping,
    features,
    kernels,
    means,
)
from manifoldgp._system import tensor_file
from manifoldgp._system.model_header import read_header
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators.descriptions import describe, rebuild
from manifoldgp.estimators.model_file import save
from manifoldgp.inference.certainty import Certainty
from manifoldgp.registry import registered
from short_fits import manifold as estimator

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 3))
Y = np.sin(X[:, 0]) + X[:, 1]
NEW = RNG.normal(size=(4, 3))


def mgp(features=(3, 2), **named):
    return estimator(features, **{"restarts": 2, "max_iter": 4, **named})


def gp(**named):
    return GPRegressor(**{"restarts": 2, "max_iter": 4, **named})


def same_after_loading(model, path, modules=(), at=NEW):
    """Save, load, and compare everything a model says, bit by bit."""
    model.save(path)
    loaded = manifoldgp.load(path, modules=modules)
    assert type(loaded) is type(model)
    for ask in (
        lambda m: m.predict(at),
        lambda m: m.predict(at, return_std=True),
        lambda m: m.predict(at, return_std=True, latent=True),
        lambda m: m.predict_quantiles(at),
        lambda m: m.sample_y(at, 2),
        lambda m: m.predict_gradient(at),
        lambda m: m.transform(at),
    ):
        for before, after in zip(np.atleast_1d(ask(model)), np.atleast_1d(ask(loaded)), strict=True):
            np.testing.assert_array_equal(after, before)
    assert loaded.nlml_ == model.nlml_
    np.testing.assert_array_equal(loaded.starts_, model.starts_)
    assert loaded.starts_.dtype == model.starts_.dtype
    assert all(np.array_equal(a, b) for a, b in zip(loaded.histories_, model.histories_, strict=True))
    assert str(loaded.diagnose()) == str(model.diagnose())
    assert (loaded.n_features_in_, loaded.n_outputs_) == (model.n_features_in_, model.n_outputs_)
    return loaded


def net(*sizes, dtype=torch.float32):
    layers = [torch.nn.Linear(a, b, dtype=dtype) for a, b in zip((3, *sizes), sizes, strict=False)]
    return torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.Tanh())))


FEATURES = [
    features.MLP((3, 2), ("tanh", "identity"), rank=1, scale=1.5), features.Identity(), features.Linear(2), features.Linear(1, bias=True),
    features.PCA(2), features.PCA(1, whiten=False), features.RandomEmbedding(2, seed=3), features.Kumaraswamy(),
    features.AutoEncoder((3, 2), noise=0.1, activation=("sine", "tanh"), steps=9), features.MLP((3, 2)).pretrained(steps=9),
    features.MLP((3, 1)).guided(),
    features.FixedLinear(np.eye(3)[:, :2]), features.Nested(3, 1), features.Residual(features.MLP((3,))),
    features.Concatenate(features.Identity(), features.MLP((2,))), features.PCA(2) >> features.MLP((2, 1)),
    features.Residual(features.Chain(features.Linear(2), features.Concatenate(features.Identity(), features.MLP((1,))))),
]  # fmt: skip

KERNELS = [
    *("se", "nn", "matern12", "matern32", "matern52", "rq", "periodic", "sm", "linear", "additive", "oak"),
    kernels.SquaredExponential(ard=False, amplitude=False), kernels.Matern32(dims=(0, 2)), kernels.RationalQuadratic(ard=False),
    kernels.SpectralMixture(2), kernels.Additive("matern52", orders=2), kernels.Linear(ard=False) + kernels.Constant(),
    kernels.SquaredExponential(dims=(0,)) * kernels.Periodic(amplitude=False, dims=(1,)) + kernels.NeuralNetwork(),
]  # fmt: skip

MEANS = ["zero", "constant", "linear", means.Zero(), means.Constant(), means.Linear(), means.Linear(on="features")]


@pytest.mark.parametrize("part", FEATURES, ids=repr)
def test_features_there_and_back(tmp_path, part):
    loaded = same_after_loading(mgp(part).fit(X, Y), tmp_path / "model.mgp")
    assert loaded.features == part


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_fit_and_go_there_and_back(tmp_path, kernel):
    loaded = same_after_loading(gp(kernel=kernel).fit(X, Y), tmp_path / "model.mgp")
    assert loaded.kernel == kernel


@pytest.mark.parametrize("mean", MEANS, ids=repr)
def test_means_there_and_back(tmp_path, mean):
    assert same_after_loading(mgp(mean=mean).fit(X, Y), tmp_path / "model.mgp").mean == mean


@pytest.mark.parametrize("transformer", [
    StandardScaler(), decomposition.PCA(2), decomposition.FastICA(2, random_state=0, max_iter=1000),
    features.Chain(StandardScaler(), features.MLP((2,))), features.Concatenate(decomposition.PCA(1), features.MLP((2,))),
], ids=repr)  # fmt: skip
def test_affine_transformers_are_saved_as_the_matrix_they_are(tmp_path, transformer):
    loaded = same_after_loading(mgp(transformer).fit(X, Y), tmp_path / "model.mgp")
    assert isinstance(loaded.features, features.Features)
    loaded.fit(X, Y)


@pytest.mark.parametrize("transformer", [
    manifold.Isomap(n_components=2, n_neighbors=8), MinMaxScaler(clip=True), features.Chain(MinMaxScaler(clip=True), features.MLP((2,))),
], ids=repr)  # fmt: skip
def test_other_transformers_predict_and_are_refused_by_save(tmp_path, transformer):
    model = mgp(transformer).fit(X, Y)
    assert np.isfinite(model.predict(NEW, return_std=True)).all()
    with pytest.raises(InputError, match=r"not differentiable"):
        model.predict_gradient(NEW)
    with pytest.raises(
        InputError, match=r"holds a fitted scikit-learn object, which only pickle can store. Use joblib.dump\(estimator, path\)"
    ):
        model.save(tmp_path / "model.mgp")
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(NEW), model.predict(NEW))


@pytest.mark.parametrize("model", [
    mgp(target_warping="tanh"), mgp(target_warping=TanhWarping(2)), mgp(noise=GaussianNoise(floor=1e-3), standardize=False),
    mgp(priors={"kernel.*": LogNormal(0.0, 2.0), "features.0.*": StudentT(3.0), "features.1.bias": Normal(1, 2), "features.1.weight": GroupSparse(0.1)}),
    mgp(features.MLP((4, 1), ("tanh", "relu")), random_state=np.random.RandomState(0)), mgp(np.array([2, 1]), random_state=np.int64(3)),
    mgp(averaging="restarts"), ManifoldGPRegressor(averaging="fast"), ManifoldGPRegressor((3, 2), averaging=Stack(own_members=2, deals=1)),
    mgp(method=Sparse(inducing=5)), mgp(method=Exact()), mgp(method="exact"),
], ids=lambda model: repr(model).partition(" at 0x")[0])  # fmt: skip
def test_arguments_there_and_back(tmp_path, model):
    loaded = same_after_loading(model.fit(X, Y), tmp_path / "model.mgp")
    for name, value in model.get_params(deep=False).items():
        if name not in ("features", "random_state"):
            assert getattr(loaded, name) == value
    if getattr(model, "features", None) is not None:
        assert features.as_features(loaded.features) == features.as_features(model.features)
    assert loaded.random_state == (None if isinstance(model.random_state, np.random.RandomState) else model.random_state)
    for before, after in zip(model.held_out_, loaded.held_out_, strict=True):
        assert (before is None) == (after is None)
        for field in dataclasses.fields(before) if before is not None else ():
            np.testing.assert_equal(getattr(after, field.name), getattr(before, field.name))
    loaded.fit(X, Y)


@pytest.mark.parametrize(("y", "noise"), [
    (Y, np.linspace(0.1, 0.2, 16)), (Y[:, None], None), (np.c_[Y, -Y], np.c_[np.full(16, 0.1), np.full(16, 0.2)]), (np.c_[Y, Y**2, Y**3], None),
], ids=["known noise", "a column", "two with noise", "three"])  # fmt: skip
@pytest.mark.parametrize("shared", [False, True])
def test_targets_and_noise_there_and_back_before_and_after_an_update(tmp_path, y, noise, shared):
    model = mgp(shared_features=shared, noise="known" if noise is not None else "learned").fit(X, y, noise_std=noise)
    same_after_loading(model, tmp_path / "first.mgp")
    model.update(NEW, y[:4], noise_std=None if noise is None else noise[:4])
    loaded = same_after_loading(model, tmp_path / "second.mgp")
    assert len(loaded.ensembles_[0].blocks[0].data.y) == 20
    for m in (model, loaded):
        m.update(X[:2], y[:2], noise_std=None if noise is None else noise[:2])
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))


def test_weights_that_follow_variances_there_and_back(tmp_path):
    model = mgp(averaging="restarts", restarts=3).fit(X, Y)
    (plain,) = model.ensembles_
    assert same_after_loading(model, tmp_path / "plain").ensembles_[0].certainty is None
    usual = [torch.from_numpy(RNG.normal(size=block.members)) for block in plain.blocks]
    model.ensembles_ = [dataclasses.replace(plain, certainty=Certainty(0.7, 0.8, usual))]
    (loaded,) = same_after_loading(model, tmp_path / "model").ensembles_
    assert loaded.certainty.exponent == 0.7
    assert all(map(torch.equal, loaded.certainty.usual, usual))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_feature_names_are_kept(tmp_path, frame):
    named, others = (frame({name: X[:, d] for d, name in enumerate(names)}) for names in (("a", "b", "ü"), ("a", "b", "c")))
    loaded = same_after_loading(gp().fit(named, Y), tmp_path / "model.mgp", at=named)
    assert list(loaded.feature_names_in_) == ["a", "b", "ü"]
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        loaded.predict(others)
    gp().fit(X, Y).save(tmp_path / "model.mgp")
    assert not hasattr(manifoldgp.load(tmp_path / "model.mgp"), "feature_names_in_")


def test_a_loaded_model_warm_starts_another(tmp_path):
    model = gp(max_iter=20).fit(X, Y)
    model.save(tmp_path / "model.mgp")
    again = gp(max_iter=0, warm_start_from=manifoldgp.load(tmp_path / "model.mgp")).fit(X, Y)
    assert again.starts_["nlml"][0] == pytest.approx(model.nlml_, rel=1e-9)


# ------------------------------------------------------------------------------------------------------- torch modules


class Buffered(torch.nn.Module):
    """A module with a float and an integer buffer, and a frozen parameter."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.norm = torch.nn.BatchNorm1d(2).eval()
        self.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, X):
        return self.norm(torch.tanh(self.linear(X))) * self.frozen


def lazy():
    return torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.Tanh())


@pytest.mark.parametrize(("make", "wrap"), [
    (lambda: [net(4, 2)], lambda m: {"features": m[0]}),
    (lambda: [lazy()], lambda m: {"features": m[0]}),
    (lambda: [Buffered().eval()], lambda m: {"features": features.Module(m[0], restarts="jitter")}),
    (lambda: [torch.nn.Linear(3, 1)], lambda m: {"mean": m[0]}),
    (lambda: [net(2), torch.nn.Linear(3, 1)], lambda m: {"features": m[0], "mean": m[1]}),
    (lambda: [net(2), torch.nn.Linear(2, 1)], lambda m: {"features": m[0], "mean": means.Module(m[1], on="features")}),
    (lambda: [net(2), net(4)], lambda m: {"features": features.Concatenate(m[0], features.Linear(1), m[1])}),
    (lambda: [net(3)], lambda m: {"features": features.Residual(m[0])}),
    (lambda: [net(2)], lambda m: {"features": features.Chain(StandardScaler(), m[0], features.MLP((2,)))}),
], ids=["net", "lazy", "buffers", "mean", "both", "mean on features", "several", "residual", "chain"])  # fmt: skip
def test_modules_are_brought_by_whoever_loads(tmp_path, make, wrap):
    given = make()
    model = mgp(**wrap(given)).fit(X, Y)
    loaded = same_after_loading(model, tmp_path / "model.mgp", modules=make())  # new modules, other weights
    loaded.fit(X, Y)
    names = [type(m).__name__ for m in given]
    with pytest.raises(
        InputError, match=rf"uses your own torch modules: load\(path, modules=\[{names[0]}\(...\).*; load got modules=\[\]"
    ):
        manifoldgp.load(tmp_path / "model.mgp")
    with pytest.raises(InputError, match=r"load got modules=\[ReLU"):
        manifoldgp.load(tmp_path / "model.mgp", modules=[torch.nn.ReLU() for _ in given])
    with pytest.raises(InputError, match="uses your own torch modules"):
        manifoldgp.load(tmp_path / "model.mgp", modules=[*make(), net(1)])


def test_loading_with_modules_learns_nothing_anew(tmp_path, monkeypatch):
    parts = features.AutoEncoder((2,), steps=3), features.MLP((2,)).pretrained(steps=3), net(2)
    inner = features.Residual(features.AutoEncoder((3,), steps=3))
    model = mgp(inner >> features.Concatenate(*parts)).fit(X, Y)
    model.save(tmp_path / "model.mgp")
    monkeypatch.setattr("manifoldgp.features.autoencoder.reconstructing", None)
    loaded = manifoldgp.load(tmp_path / "model.mgp", modules=[net(2)])
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    with pytest.raises(TypeError):  # a new fit learns again
        loaded.fit(X, Y)


def test_modules_of_other_sizes_or_none_at_all_are_refused(tmp_path):
    mgp(net(4, 2)).fit(X, Y).save(tmp_path / "model.mgp")
    with pytest.raises(FileFormatError, match=r"'values.features.0.weight' should be .* a module given to load differs"):
        manifoldgp.load(tmp_path / "model.mgp", modules=[net(5, 2)])
    with pytest.raises(InputError, match="A module given to load does not accept this model's inputs"):
        manifoldgp.load(tmp_path / "model.mgp", modules=[torch.nn.Sequential(torch.nn.Linear(7, 4), torch.nn.Tanh())])
    gp().fit(X, Y).save(tmp_path / "plain.mgp")
    with pytest.raises(InputError, match=r"has no torch modules of yours; load got modules=\[Sequential\]"):
        manifoldgp.load(tmp_path / "plain.mgp", modules=[net(1)])


def test_an_average_places_the_modules_of_features_where_they_belong(tmp_path):
    model = ManifoldGPRegressor(net(2), averaging=Stack(own_members=1, deals=1, keep=-1.0)).fit(X, Y)
    assert len(model.ensembles_[0].blocks) > 1
    same_after_loading(model, tmp_path / "model.mgp", modules=[net(2)])


# ------------------------------------------------------------------------------------------------------- the file


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.mgp"
    mgp().fit(X, Y).save(path)
    return path


def test_one_file_replaced_at_once(tmp_path, monkeypatch):
    model, path = gp().fit(X, Y), tmp_path / "model.mgp"
    model.save(str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["model.mgp"]
    model.save(path)
    first = path.read_bytes()

    def fail(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(tensor_file, "save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["model.mgp"]


def test_a_device_that_is_not_there_is_refused(saved):
    with pytest.raises(InputError, match="The device 'gpu' cannot be used"):
        manifoldgp.load(saved, device="gpu")


def test_a_missing_folder_or_file_is_said(tmp_path):
    with pytest.raises(InputError, match=r"The folder .*nowhere does not exist. Create it first"):
        gp().fit(X, Y).save(tmp_path / "nowhere" / "model.mgp")
    with pytest.raises(FileNotFoundError, match=r"There is no model file .*model.mgp"):
        manifoldgp.load(tmp_path / "model.mgp")


def test_every_damaged_byte_is_noticed(saved, tmp_path):
    data = saved.read_bytes()
    path = tmp_path / "damaged.mgp"
    for position in np.unique(np.r_[np.arange(0, 2000, 37), np.linspace(0, len(data) - 1, 200).astype(int)]):
        changed = bytearray(data)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(FileFormatError, match=r"damaged|not a model|format version"):
            manifoldgp.load(path)


@pytest.mark.parametrize("length", [0, 4, 100, 3000, -1])
def test_a_truncated_file_is_noticed(saved, tmp_path, length):
    (tmp_path / "short.mgp").write_bytes(saved.read_bytes()[:length])
    with pytest.raises(FileFormatError, match=r"short.mgp is not a model file, or it is damaged"):
        manifoldgp.load(tmp_path / "short.mgp")


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign"
    for content in (b"hello", pickle.dumps(gp().fit(X, Y)), b"PK\x03\x04" + bytes(100), json.dumps({"a": 1}).encode()):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="is not a model file, or it is damaged"):
            manifoldgp.load(path)
    save_file({"weight": torch.zeros(2)}, path)
    with pytest.raises(FileFormatError, match="is a safetensors file, but not a model of this package"):
        manifoldgp.load(path)
    save_file({"weight": torch.zeros(2)}, path, {"format": "pt"})
    with pytest.raises(FileFormatError, match="is a safetensors file, but not a model of this package"):
        manifoldgp.load(path)


def rewritten(saved, path, change):
    """A file like ``saved`` with header and tensors changed, and a checksum that fits."""
    header, tensors = tensor_file.read(saved)
    change(header, tensors)
    tensor_file.write(path, header, tensors)
    return path


def test_another_version_is_refused(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_file, "version_of", lambda header: "3")
    path = rewritten_version(saved, tmp_path / "new.mgp")
    with pytest.raises(FileFormatError, match="has format version 3; this package reads versions 1 and 2"):
        manifoldgp.load(path)


def following(model):
    """The model with weights that follow how sure its members are."""
    (ensemble,) = model.ensembles_
    usual = [torch.zeros(block.members, dtype=torch.float64) for block in ensemble.blocks]
    model.ensembles_ = [dataclasses.replace(ensemble, certainty=Certainty(0.7, 0.8, usual))]
    return model


@pytest.mark.parametrize(("kind", "alone", "with_program", "of_predictor"), [
    ("plain", "1", "1", 2), ("warped", "1", "2", 3), ("following", "2", "2", 3),
])  # fmt: skip
def test_the_version_is_a_newer_one_only_where_earlier_readers_would_go_wrong(tmp_path, kind, alone, with_program, of_predictor):
    """They took components of warped targets for those of y, and weights that follow variances for weights alone."""
    model = mgp(averaging="restarts", restarts=3, target_warping=TanhWarping(2) if kind == "warped" else None).fit(X, Y)
    model = following(model) if kind == "following" else model
    path, program = tmp_path / "model.mgp", model.predictor()
    for predictor, version in ((None, alone), (program, with_program)):
        save(model, path, predictor=predictor)
        with safe_open(path, "pt") as file:
            assert file.metadata()["version"] == version
        np.testing.assert_array_equal(manifoldgp.load(path).predict(NEW), model.predict(NEW))
        assert read_header(path)["flat"] is True
    program.save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as archive:
        assert json.loads(archive["header"].tobytes())["version"] == of_predictor
    np.testing.assert_array_equal(Predictor.load(tmp_path / "p.npz")(NEW), program(NEW))


def rewritten_version(saved, path):
    with safe_open(saved, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["header"])
    tensor_file.write(path, header, tensors)
    return path


@pytest.mark.parametrize("name", [
    "x.offset", "y.scale", "ensemble0.X", "ensemble0.y", "ensemble0.block0.L", "ensemble0.block0.H", "ensemble0.block0.alpha",
    "ensemble0.block0.z", "ensemble0.block0.jitter", "ensemble0.block0.log_weights", "ensemble0.block0.values.kernel.lengthscale",
    "ensemble0.block0.values.features.0.weight", "ensemble0.block0.values.noise.scale",
])  # fmt: skip
def test_tensors_that_are_missing_or_of_another_kind(saved, tmp_path, name):
    short = name.split("block0.")[-1]
    with pytest.raises(FileFormatError, match=f"The file has no tensor '{short}'"):
        manifoldgp.load(rewritten(saved, tmp_path / "a", lambda header, tensors: tensors.pop(name)))
    with pytest.raises(
        FileFormatError, match=rf"The tensor '{short}' should be torch.float64 of shape .*; the file has torch.float32"
    ):
        manifoldgp.load(rewritten(saved, tmp_path / "b", lambda header, tensors: tensors.update({name: tensors[name].float()})))
    with pytest.raises(FileFormatError, match=r"should be torch.float64 of shape"):
        manifoldgp.load(
            rewritten(saved, tmp_path / "c", lambda header, tensors: tensors.update({name: tensors[name][..., None]}))
        )
    if tensors_have_more_than_one_row(saved, name):
        with pytest.raises(FileFormatError, match=r"should be torch.float64 of shape|do not match"):
            manifoldgp.load(
                rewritten(saved, tmp_path / "d", lambda header, tensors: tensors.update({name: tensors[name][..., :-1]}))
            )


def tensors_have_more_than_one_row(saved, name):
    return tensor_file.read(saved)[1][name].shape[-1:] > (1,)


@pytest.mark.parametrize(("change", "message"), [
    (lambda h, t: h.pop("settings"), "is incomplete or inconsistent"),
    (lambda h, t: h.update(estimator="OtherRegressor"), "is incomplete or inconsistent .*OtherRegressor"),
    (lambda h, t: h.update(ensembles=[]), "targets or feature names do not match its 1 target and 3 inputs"),
    (lambda h, t: h.update(feature_names=["a"]), "targets or feature names do not match its 1 target and 3 inputs"),
    (lambda h, t: h.update(starts=[[1, 2]]), "is incomplete or inconsistent"),
    (lambda h, t: h["settings"]["items"].update(colour="red"), "is incomplete or inconsistent .*colour"),
    (lambda h, t: h["ensembles"][0]["models"][0].update({"class": "os.system"}), "names an unknown part 'os.system'. If it is a class of your own, import or define it"),
    (lambda h, t: h["ensembles"][0]["models"][0]["fields"].update(colour="red"), "description of model.Model does not fit this version"),
    (lambda h, t: h["ensembles"][0]["models"][0]["fields"]["features"]["fields"].update(sizes=[-1]), "description of features.MLP does not fit"),
    (lambda h, t: t.update({"ensemble0.block0.values.extra": t["x.scale"]}), "tensors that its model does not know: values.extra"),
])  # fmt: skip
def test_headers_that_do_not_fit(saved, tmp_path, change, message):
    with pytest.raises(FileFormatError, match=message):
        manifoldgp.load(rewritten(saved, tmp_path / "changed.mgp", change))


def test_loading_imports_and_runs_nothing_but_the_package(saved):
    """In a process where pickle cannot read and no code can be compiled, a model still loads and predicts."""
    code = f"""
import builtins, pickle, sys
import numpy as np
import manifoldgp, manifoldgp.estimators, manifoldgp.estimators.model_file
def refuse(*args, **named):
    raise RuntimeError("code was about to run")
pickle.load = pickle.loads = pickle.Unpickler = builtins.eval = builtins.exec = builtins.compile = refuse
before = set(sys.modules)
model = manifoldgp.load({str(saved)!r})
print(model.predict(np.zeros((1, 3))).shape, [name for name in set(sys.modules) - before if "manifoldgp" in name])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(1,) []", done.stderr


# ------------------------------------------------------------------------------------------------------- descriptions


def test_every_public_part_can_be_written():
    public = [getattr(module, name) for module in (features, kernels) for name in module.__all__]
    public += [cls for cls in vars(means).values() if isinstance(cls, type) and issubclass(cls, means.Mean)]
    kinds = (features.Features, kernels.Kernel, means.Mean)
    parts = {c for c in public if isinstance(c, type) and issubclass(c, kinds) and not getattr(c, "__abstractmethods__", None)}
    assert parts - set(registered().values()) == {features.Transformer}


@pytest.mark.parametrize(
    "part", [*FEATURES, *KERNELS, *MEANS, LogNormal(1, 2), None, True, 0.1, 1e-300, (1, (2.5, "a")), {"a": (1,)}], ids=repr
)
def test_descriptions_are_json_and_come_back_equal(part):
    plain = json.loads(json.dumps(describe(part)))
    assert rebuild(plain, {}) == part


def test_what_cannot_be_described_is_said():
    class Own(features.Identity):
        pass

    with pytest.raises(
        InputError,
        match=r"Own\(\) \(a Own\) cannot be written to a model file: files name registered parts only. Write @manifoldgp.register",
    ):
        describe(Own())


def test_subclasses_are_refused(tmp_path):
    class Own(GPRegressor):
        pass

    with pytest.raises(InputError, match="can be saved; a Own is code"):
        Own(restarts=1, max_iter=1).fit(X, Y).save(tmp_path / "model.mgp")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX files")
def test_a_model_file_may_be_read_by_whom_the_umask_allows(tmp_path):
    GPRegressor(restarts=1, max_iter=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]).save(tmp_path / "m.mgp")
    (tmp_path / "other").touch()
    assert (tmp_path / "m.mgp").stat().st_mode == (tmp_path / "other").stat().st_mode
