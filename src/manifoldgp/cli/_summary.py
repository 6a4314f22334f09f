"""What a fitted model is and what its fit looks like, as plain data: ``mgp fit`` puts it into the model file, so that ``mgp inspect`` needs no PyTorch."""

from __future__ import annotations

from typing import Any

_NOT_SHOWN = ("callback", "warm_start_from", "device", "verbose")


def summary_of(model: Any, diagnosis: Any = None) -> dict[str, Any]:
    """Plain data about a fitted estimator. diagnosis: if it is known already."""
    from manifoldgp.cli._messages import in_options, plain_data
    from manifoldgp.cli._models import encoding_of, with_names

    diagnosis, encoding = model.diagnose() if diagnosis is None else diagnosis, encoding_of(model)
    settings = _settings(model.get_params(deep=False))
    usual = _settings(type(model)().get_params(deep=False))
    return plain_data({
        "estimator": type(model).__name__,
        "rows": model.ensembles_[0].blocks[0].rows,
        "targets": encoding.targets,
        "members": [sum(block.members for block in e.blocks) for e in model.ensembles_],
        "table": encoding.to_plain(rows=False),
        # programs get the settings inside averaging and method one by one, people those that differ from the defaults, as they are written in Python
        "settings": _settings(model.get_params(deep=True)),
        "changed": {name: value for name, value in settings.items() if name in _ALWAYS or value != usual[name]},
        "numbers": {with_names(name, encoding.targets): value for name, value in diagnosis.numbers.items()},
        "whose": diagnosis.whose,
        "remarks": [in_options(with_names(remark, encoding.targets)) for remark in diagnosis.remarks],
    })  # fmt: skip


_ALWAYS = ("averaging", "restarts", "random_state")
"""Settings that matter most, shown whatever they are."""


def _settings(params: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in params.items() if name.split("__")[-1] not in _NOT_SHOWN}


def _plain(value: Any) -> Any:
    """A setting as it is written in Python; words in a row with commas, as on the command line."""
    if isinstance(value, tuple) and all(isinstance(word, str) for word in value):
        return ", ".join(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
