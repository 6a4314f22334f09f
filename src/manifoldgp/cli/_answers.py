"""What a model file says about rows of a table: by the program in it, which needs neither PyTorch nor scikit-learn, or by the model itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.data.fit_rows import FitRows
    from manifoldgp.data.number_columns import Reading
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
    from manifoldgp.estimators.predictions import Distribution
    from manifoldgp.predictor import Predictor
    from manifoldgp.predictor.mixture import Mixture


Piece = TypeVar("Piece")

_ROWS_AT_ONCE, _ROWS_OF_A_CORE = 8192, 512
"""Rows that are predicted at a time: beyond, only the table and its predictions grow with the rows. And as many as are worth a core of their own."""


class Answer(Protocol):
    """One target's distribution at n rows."""

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n,) and standard deviation (n,)."""
        ...

    def quantile(self, q: float) -> np.ndarray:
        """y (n,) with P(Y <= y) = q."""
        ...

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y <= y) (n,)."""
        ...

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """log p(y) (n,)."""
        ...

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score (n,), in the units of y."""
        ...


class Answers(Protocol):
    """A model file, opened to predict."""

    @property
    def scales(self) -> Sequence[float]:
        """The standard deviation of each target at the fit."""
        ...

    @property
    def lost(self) -> str:
        """What these predictions lose beside the model's own, in a sentence; empty: nothing."""
        ...

    @property
    def one_core(self) -> bool:
        """Whether a call keeps one core busy, so that several can run side by side."""
        ...

    @property
    def held_rows_out(self) -> bool:
        """Whether errors on held-out rows are known."""
        ...

    def fit_rows(self) -> FitRows | None:
        """The rows of the fit that the file keeps; None where it keeps none."""
        ...

    @property
    def known_columns(self) -> tuple[Sequence[str], Sequence[str]]:
        """Columns that the model reads and its targets, by name; none where it was fitted in Python on what has no names."""
        ...

    @property
    def reading(self) -> Reading:
        """By what tables in files are read."""
        ...

    def encoding(self, table: Any, targets: Sequence[str] = ()) -> TableEncoding:
        """How the model reads tables. targets: their names in the table, where a model saved from Python knows none, or others."""
        ...

    def targets(self, X: Any, noise: np.ndarray | None) -> Sequence[Answer]:
        """Each target's distribution at encoded rows X (n, D), a DataFrame. noise: known standard deviations (n,)."""
        ...


def open_answers(path: Path, exact: bool = False, rows: bool = False) -> Answers:
    """The quickest way to predictions that a file offers; exact: without a program that loses something. rows: whether the rows of the fit are asked for, too."""
    from manifoldgp._system.model_header import read_parts
    from manifoldgp.cli._models import open_model, refuse_dynamics
    from manifoldgp.data.fit_rows import is_kept

    header, parts = read_parts(path, lambda name: name.startswith("program.") or name == "y.scale" or (rows and is_kept(name)))
    refuse_dynamics(path, header)
    if "program" in header:
        program = _read_program(path, header, {part.name: part for part in parts}, rows)
        if not (exact and program.lost):
            return program
    model = open_model(path)
    return _Model(model, [float(scale) for scale in model.y_scaler_.scale])


def _read_program(path: Path, header: dict[str, Any], parts: dict[str, Any], rows: bool) -> _Program:
    """The program of a model file; refuses one that is inconsistent."""
    from manifoldgp.errors import FileFormatError, MissingExtraError

    try:
        return _Program.of(header, parts, rows)
    except MissingExtraError:
        raise
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error
    except Exception as error:  # whatever a forged file leads to, it is the file that is wrong
        raise FileFormatError(f"{path} is incomplete or inconsistent ({type(error).__name__}: {error}).") from error


def in_pieces(answers: Answers, rows: int, function: Callable[[slice], Piece]) -> list[Piece]:
    """function(slice) of all rows, piece by piece; side by side on the cores where a call keeps one busy.

    Threads of one product wait for each other by turning round and round: where something else runs, that takes many times what the product does.
    """
    if not answers.one_core:
        return [function(slice(first, first + _ROWS_AT_ONCE)) for first in range(0, max(rows, 1), _ROWS_AT_ONCE)]
    from threadpoolctl import ThreadpoolController

    pools = ThreadpoolController()
    cores = max((pool.num_threads for pool in pools.lib_controllers), default=1)
    size = min(max(-(-rows // cores), _ROWS_OF_A_CORE), _ROWS_AT_ONCE)
    pieces = [slice(first, first + size) for first in range(0, max(rows, 1), size)]
    with pools.limit(limits=1), ThreadPoolExecutor(min(cores, len(pieces))) as side_by_side:
        return list(side_by_side.map(function, pieces))


@dataclass(frozen=True)
class _Program:
    """Answers by the program that ``mgp fit`` left in the file."""

    predictor: Predictor
    table: TableEncoding
    scales: Sequence[float]
    held_rows_out: bool
    kept: FitRows | None

    @classmethod
    def of(cls, header: dict[str, Any], parts: dict[str, Any], rows: bool) -> _Program:
        import numpy as np

        from manifoldgp.data.encoding import TableEncoding
        from manifoldgp.data.fit_rows import FitRows, is_kept
        from manifoldgp.errors import FileFormatError
        from manifoldgp.predictor import Predictor
        from manifoldgp.predictor.file import checked, program_from_plain

        def array(name: str) -> np.ndarray:
            part = parts[name]
            if part.dtype == "torch.bfloat16":  # which NumPy knows where some other library has taught it
                raise FileFormatError(f"The tensor {name!r} holds bfloat16, which no program has. The file is damaged or forged.")
            return np.frombuffer(part.data, dtype=part.dtype.removeprefix("torch.")).reshape(part.shape)

        slots = [name for name in parts if name.startswith("program.")]
        program = program_from_plain(header["program"], {int(name.removeprefix("program.")): array(name) for name in slots})
        predictor = Predictor.from_facts(*checked(program, header["program"]["facts"]))
        inputs, targets, scales = predictor.n_features, predictor.n_outputs, array("y.scale")
        if header["program"]["facts"]["mixture"] is None:
            raise FileFormatError("The file's program gives no distributions. It is damaged or forged.")
        if scales.shape != (targets,) or not (np.isfinite(scales) & (scales > 0)).all():
            raise FileFormatError(
                "The tensor 'y.scale' should be one finite and positive number for each target. The file is damaged or forged."
            )
        table = TableEncoding.of_model(header["table"], predictor.feature_names, inputs, targets)
        kept = FitRows.of_file(header, {name: array(name) for name in parts if is_kept(name)}, table) if rows else None
        held_out = any(found is not None and found["means"] for found in header["held_out"])
        return cls(predictor, table, scales.tolist(), held_out, kept)

    def fit_rows(self) -> FitRows | None:
        return self.kept

    @property
    def lost(self) -> str:
        return self.predictor.distilled

    @property
    def one_core(self) -> bool:
        return True

    @property
    def known_columns(self) -> tuple[Sequence[str], Sequence[str]]:
        return [column.name for column in self.table.columns], self.table.targets

    @property
    def reading(self) -> Reading:
        return self.table.reading

    def encoding(self, table: Any, targets: Sequence[str] = ()) -> TableEncoding:
        return self.table

    def targets(self, X: Any, noise: np.ndarray | None) -> Sequence[Answer]:
        import numpy as np

        A = X.to_numpy()
        gaps = np.isnan(A).any(1)
        variances = None if noise is None else np.asarray(noise) ** 2
        parts: list[tuple[np.ndarray, list[Mixture]]] = []
        if not gaps.all():
            known = np.ascontiguousarray(A[~gaps])
            self.predictor.query.refuse_unusable(known)
            own = None if variances is None else variances[~gaps]
            parts.append((np.flatnonzero(~gaps), self.predictor.mixtures(known, own)))
        if gaps.any():
            drawn, recentred = self.table.filled_in(A[gaps])
            columns = drawn.shape[1]
            own = None if variances is None else np.repeat(variances[gaps], columns)
            each = self.predictor.mixtures(drawn.reshape(-1, A.shape[1]), own)
            parts.append((np.flatnonzero(gaps), [mixture.over_draws(columns - 1, recentred) for mixture in each]))
        return [_Mixtures(len(A), [(rows, each[o]) for rows, each in parts]) for o in range(self.predictor.n_outputs)]


@dataclass(frozen=True)
class _Mixtures:
    """One target's mixtures at rows whose values are known and at rows with gaps, by the rows' numbers."""

    rows: int
    parts: list[tuple[np.ndarray, Mixture]]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        found = [(rows, mixture.moments()) for rows, mixture in self.parts]
        return self._joined([(r, m) for r, (m, _) in found]), np.sqrt(self._joined([(r, v) for r, (_, v) in found]))

    def quantile(self, q: float) -> np.ndarray:
        return self._joined([(rows, mixture.quantile(q)) for rows, mixture in self.parts])

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return self._joined([(rows, mixture.cdf(y[rows])) for rows, mixture in self.parts])

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return self._joined([(rows, mixture.log_density(y[rows])) for rows, mixture in self.parts])

    def crps(self, y: np.ndarray) -> np.ndarray:
        return self._joined([(rows, mixture.crps(y[rows])) for rows, mixture in self.parts])

    def _joined(self, pieces: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        import numpy as np

        found = np.empty(self.rows)
        for rows, piece in pieces:
            found[rows] = piece
        return found


@dataclass(frozen=True)
class _Model:
    """Answers by the model itself: what was saved from Python, or is large."""

    model: ManifoldGPRegressor
    scales: Sequence[float]
    lost: str = ""
    one_core: bool = False

    @property
    def held_rows_out(self) -> bool:
        return any(report is not None and report.mean is not None for report in self.model.held_out_)

    def fit_rows(self) -> FitRows | None:
        from manifoldgp.inspection import fit_rows

        return fit_rows(self.model)

    @property
    def known_columns(self) -> tuple[Sequence[str], Sequence[str]]:
        from manifoldgp.cli._models import known_columns

        return known_columns(self.model)

    @property
    def reading(self) -> Reading:
        from manifoldgp.cli._models import reading_of

        return reading_of(self.model)

    def encoding(self, table: Any, targets: Sequence[str] = ()) -> TableEncoding:
        from manifoldgp.cli._models import encoding_of

        return encoding_of(self.model, table, targets)

    def targets(self, X: Any, noise: np.ndarray | None) -> Sequence[Answer]:
        from manifoldgp.estimators.predictions import distribution
        from manifoldgp.estimators.units import model_points

        found = distribution(self.model, model_points(self.model, X), False, noise)
        return [_OfModel(found, o) for o in range(len(self.scales))]


@dataclass(frozen=True)
class _OfModel:
    """One target of what a model says about some rows."""

    found: Distribution
    output: int

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        mean, std = self.found.moments()
        return self._own(mean), self._own(std)

    def quantile(self, q: float) -> np.ndarray:
        import numpy as np

        return self._own(self.found.quantiles(np.array([q]))[:, 0])

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return self._own(self.found.cdf(self._all(y)))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return self._own(self.found.log_densities(self._all(y)))

    def crps(self, y: np.ndarray) -> np.ndarray:
        return self._own(self.found.crps(self._all(y)))

    def _own(self, found: np.ndarray) -> np.ndarray:
        return found.reshape(self.found.points.rows, -1)[:, self.output]

    def _all(self, y: np.ndarray) -> np.ndarray:
        import numpy as np

        return np.tile(y[:, None], (1, self.found.estimator.n_outputs_))  # only this target's column is looked at
