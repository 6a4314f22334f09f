"""The columns of a model in its file: how they are standardised, and what the file says about them held against the rest of it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.tensor_file import POSITIVE, take
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import FileFormatError


def pack_scaler(scaler: Standardizer, axis: str, tensors: dict[str, Tensor]) -> None:
    """Put offset and scale of the columns into ``tensors``, and which inputs of the model they are where some are left out or in another order."""
    tensors[f"{axis}.offset"], tensors[f"{axis}.scale"] = torch.from_numpy(scaler.offset), torch.from_numpy(scaler.scale)
    if not scaler.sees_columns_as_they_are:
        tensors[f"{axis}.place"] = torch.from_numpy(scaler.place)


def unpack_scaler(tensors: dict[str, Tensor], axis: str, columns: int) -> Standardizer:
    """The scaler of so many columns."""
    offset, scale = take(tensors, f"{axis}.offset", (columns,)), take(tensors, f"{axis}.scale", (columns,), domain=POSITIVE)
    if f"{axis}.place" not in tensors:
        return Standardizer(offset.cpu().numpy(), scale.cpu().numpy())
    place = take(tensors, f"{axis}.place", (columns,), torch.int64).cpu().numpy()
    seen = np.unique(place[place >= 0])
    if place.min() < -1 or not len(seen) or not np.array_equal(seen, np.arange(len(seen))):
        raise FileFormatError(f"The file's places of columns, {place.tolist()}, do not number the inputs of its model.")
    return Standardizer(offset.cpu().numpy(), scale.cpu().numpy(), place)


def unpack_switched_off(plain: list[int], scaler: Standardizer) -> np.ndarray:
    """Columns that a pruned model leaves out: some of those without effect."""
    unseen = np.flatnonzero(scaler.place < 0).tolist()
    if not set(plain) <= set(unseen):
        raise FileFormatError(f"The file's columns that are switched off, {plain}, are not among those without effect, {unseen}.")
    return np.array(plain, dtype=np.int64)


def unpack_levels(tensors: dict[str, Tensor], name: str, counts: list[int]) -> np.ndarray:
    """Which categories (n, C) rows have, of so many in each column."""
    levels = take(tensors, name, (-1, len(counts)), torch.int32).cpu().numpy()
    if ((levels < -1) | (levels >= counts)).any():
        raise FileFormatError("The file's rows have categories that its table does not know. The file is damaged or forged.")
    return levels
