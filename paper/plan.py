"""All experiments, and what to run: the Configs of those that the data at hand allow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path

import manifoldgp
from manifoldgp.errors import InputError
from paper.experiment import Config, Experiment
from paper.functions import BUMPS, SMOOTH, STEP
from paper.recordings import icub_walking, walking_robot
from paper.walker_simulation import write_walker_csv
from paper.walking import ICUB, RECORDING, WALKER

EXPERIMENTS: tuple[Experiment, ...] = (STEP, BUMPS, WALKER, ICUB, RECORDING, SMOOTH)
"""In the order of the paper."""

ICUB_FILE = "icub_walking_only_100Hz.csv"
FULL_SEEDS = 20
_QUICK_SEEDS = {"step": 5, "smooth": 2}  # one of the others
_QUICK_SECONDS = 5.0
"""A quick run leaves out what the paper cites and does not tabulate where a fit takes longer than this."""

_RECORDED = ("icub", "recording")  # one recording each: seeds differ in the starts alone, a few are enough
_RECORDED_SEEDS = 5


def experiment_of(key: str) -> Experiment:
    """The experiment with this key."""
    for experiment in EXPERIMENTS:
        if experiment.key == key:
            return experiment
    raise InputError(f"There is no experiment {key!r}; choose from {', '.join(e.key for e in EXPERIMENTS)}.")


@dataclass(frozen=True)
class Plan:
    """Configs to run, and remarks: what was left out, and why."""

    quick: bool
    configs: tuple[Config, ...]
    remarks: tuple[str, ...] = ()

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments that take part, in the paper's order, with the methods that do."""
        planned = {(config.experiment, config.method) for config in self.configs}
        found = (replace(e, methods=tuple(m for m in e.methods if (e.key, m.key) in planned)) for e in EXPERIMENTS)
        return tuple(experiment for experiment in found if experiment.methods)


def make_plan(
    out: Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    only: Sequence[str] = (),
    restarts: int | None = None,
    max_iter: int = 500,
    data_dir: Path | None = None,
    walk: Path | None = None,
) -> Plan:
    """Plan a run into the folder ``out``, which also keeps the simulated walks.

    seeds: draws of the data for each experiment; by default 20, or with ``quick`` 1 to 5, and one for what the paper cites and does not tabulate if that is quick.
    only: keys of experiments. restarts, max_iter: instead of each experiment's own, for tests. data_dir: folder that may hold the iCub's recording. walk: CSV of your robot's walk.
    """
    if seeds is not None and seeds < 1:
        raise InputError(f"Expected at least one seed, got {seeds}.")
    chosen = [experiment_of(key) for key in only] or list(EXPERIMENTS)
    if walk is not None:
        walking_robot(walk)  # refuse an unusable file now, not after an hour
    configs: list[Config] = []
    remarks: list[str] = []
    for experiment in chosen:
        count = seeds or (_QUICK_SEEDS.get(experiment.key, 1) if quick else FULL_SEEDS)
        if experiment.key in _RECORDED:
            count = min(count, _RECORDED_SEEDS)
        recordings, remark = _recordings(experiment, count, out, data_dir, walk, bool(only))
        remarks += [remark] if remark else []
        configs += [
            Config(
                experiment=experiment.key,
                method=method.key,
                seed=seed,
                restarts=restarts or experiment.restarts,
                max_iter=max_iter,
                recording=None if recording is None else str(recording),
                recording_sha256=None if recording is None else hashlib.sha256(recording.read_bytes()).hexdigest(),
                version=manifoldgp.__version__,
            )
            for seed, recording in enumerate(recordings)
            for method in experiment.methods
            if not (quick and seeds is None and method.cites and (seed or method.expected_seconds > _QUICK_SECONDS))
        ]
    plan = Plan(quick, tuple(configs), tuple(remarks))
    return replace(plan, remarks=(*plan.remarks, *_left_out(chosen, plan)))


def _left_out(chosen: Sequence[Experiment], plan: Plan) -> list[str]:
    """A remark on the methods that no experiment has in this plan."""
    planned = {config.method for config in plan.configs}
    missing = dict.fromkeys(m.label for e in chosen for m in e.methods if m.key not in planned)
    return [f"Left out of a quick run, because they take long: {'; '.join(missing)}."] if missing and plan.quick else []


def _recordings(
    experiment: Experiment, count: int, out: Path, data_dir: Path | None, walk: Path | None, asked: bool
) -> tuple[list[Path | None], str]:
    """The recording of each seed (None: data are drawn or shipped), and a remark on what is missing."""
    match experiment.key:
        case "walker":
            return _walks(count, out)
        case "icub":
            path = None if data_dir is None else data_dir / ICUB_FILE
            if path is None or not path.is_file():
                if asked:
                    raise InputError(f"The iCub's recording {ICUB_FILE} was not found; name its folder with --data-dir.")
                return [], f"The iCub's walk was left out: {ICUB_FILE} was not found (--data-dir names its folder)."
            icub_walking(path)
            return [path] * count, ""
        case "recording":
            if walk is None and asked:
                raise InputError("The experiment 'recording' needs a CSV of a walk: name it with --walk.")
            return ([], "") if walk is None else ([walk] * count, "")
        case _:
            return [None] * count, ""


def _walks(count: int, out: Path) -> tuple[list[Path | None], str]:
    """The walk that ships with the package is seed 0; others are simulated once and kept as CSV."""
    if count > 1 and util.find_spec("mujoco") is None:
        return [None], (
            "The simulated walk has one seed, the recording that ships with the package: MuJoCo is not installed. "
            "For more walks: pip install 'manifoldgp[sim]'."
        )
    folder = out / "walks"
    paths: list[Path | None] = [None]
    for seed in range(1, count):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"walker-seed-{seed:03d}.csv"
        if not path.is_file():
            write_walker_csv(path, seed)
        paths.append(path)
    return paths, ""
