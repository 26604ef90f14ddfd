"""The cell magic ``%%joinsight``, which ``%load_ext joinsight`` adds: it measures the queries of a cell."""

from __future__ import annotations

from functools import partial
from typing import Any

from joinsight.measuring.measurement import Measured, active_context


def load(shell: Any) -> None:
    """Add the magic to an IPython shell."""
    shell.register_magic_function(partial(_run, shell), magic_kind="cell", magic_name="joinsight")


def _run(shell: Any, line: str, cell: str) -> None:
    from IPython.display import display

    with Measured(active_context()) as measured:
        shell.run_cell(cell)  # shows its result, or its error
    display(measured)
