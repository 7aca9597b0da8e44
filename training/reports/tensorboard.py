"""What TensorBoard shows of a run, for who has the package: ``--tensorboard DIR``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from training.files.errors import InputError
from training.loop.processes import is_main_process


class Board:
    """Numbers by step in a folder's event file; without a folder nothing is written.

    Args:
        folder: of --tensorboard.
        name: of the run, a folder in it.
        step: how many steps a resumed run has done: later ones of the file are forgotten.
    """

    def __init__(self, folder: str | None, name: str, step: int):
        self.writer = None
        if not folder or not is_main_process():
            return
        try:
            from torch.utils.tensorboard import SummaryWriter  # not everybody has the package
        except ImportError:
            raise InputError("--tensorboard needs a package: pip install tensorboard") from None
        self.writer = SummaryWriter(str(Path(folder) / name), purge_step=step + 1)

    def add(self, numbers: Mapping[str, float], step: int) -> None:
        """A point of each of these curves."""
        for name, value in numbers.items() if self.writer else ():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is still in memory."""
        if self.writer:
            self.writer.close()
