"""`joinsight ship`: delivers the files of spool folders to a collector.

A file is the body of one request. It is deleted only after the collector has committed all of it. Sending a file twice
does no harm, so neither does running this twice, or while the folder's driver runs.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import httpx

from joinsight.cli.collector import GaveUp, Undeliverable, collector_options, deliver, open_collector
from joinsight.cli.options import Duration, command
from joinsight.cli.spool import check_below, find_files, opened, read_file, set_aside
from joinsight.terminal.console import progress

ANSWER_SECONDS = 60.0


@command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@collector_options
@click.option(
    "--timeout",
    type=Duration(at_least="1s"),
    default="1m",
    show_default=True,
    help="Give up after this long without success.",
)
def ship(folders: tuple[Path, ...], timeout: timedelta, **collector: Any) -> None:
    """Deliver the spool files of a listener to a collector.

    The files in FOLDERS are delivered oldest first, and each is deleted once all of it is stored. Documents that the
    collector refuses are set aside as FILE.refused. Files that cannot be read are kept. It is safe to run this twice,
    or while the driver is running.

    Exits with 0 when everything was delivered, with 1 when something was refused or is left.
    """
    seconds = timeout.total_seconds()
    files = find_files(folders)
    if not files:
        check_below(folders)
    with open_collector(**collector, timeout=min(seconds, ANSWER_SECONDS)) as client, progress() as bar:
        task = bar.add_task("Delivering", total=len(files))
        shipper = Shipper(client, seconds)
        for path in files:
            shipper.ship(path)
            bar.advance(task)
            if shipper.gave_up:
                break
    for line in shipper.report(len(files)):
        click.echo(line, err=True)
    if shipper.refused or shipper.kept or shipper.gave_up:
        raise SystemExit(1)


@dataclass
class Shipper:
    """Delivers files one by one and counts the results."""

    client: httpx.Client
    timeout_seconds: float
    files: int = 0
    documents: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Documents that were refused, by reason."""
    kept: dict[Path, str] = field(default_factory=dict)
    """Files that were kept though the collector answers, with the problem."""
    gave_up: str | None = None
    """Why delivery ended early; None if it did not."""

    def ship(self, path: Path) -> None:
        """Deliver a file; a missing one was delivered by its driver. Raises `JoinsightError` for a wrong token or a
        service that is not a collector."""
        try:
            with opened(path.parent) as folder:
                delivered = deliver(self.client, read_file(path.name, folder), self.timeout_seconds)
                if delivered.refused:
                    set_aside(path.name, [line for line, _ in delivered.refused], folder)
                with suppress(FileNotFoundError):
                    os.unlink(path.name, dir_fd=folder)
        except FileNotFoundError:
            return
        except (OSError, Undeliverable) as error:
            self.kept[path] = str(error)
            return
        except GaveUp as error:
            self.gave_up = str(error)
            return
        self.files += 1
        self.documents += delivered.accepted
        self.refused.update(reason for _, reason in delivered.refused)

    def report(self, found: int) -> list[str]:
        """The results as lines of text."""
        lines = [f"Delivered {self.files:,} of {found:,} files, {self.documents:,} documents."]
        lines += [f"Refused, set aside as *.refused: {n:,} documents: {why}" for why, n in self.refused.most_common()]
        lines += [f"Kept, cannot be delivered: {path}: {why}" for path, why in self.kept.items()]
        if self.gave_up:
            left = f"{found - self.files - len(self.kept):,} files are left"
            where = f"The collector at {self.client.base_url} accepted nothing for {self.timeout_seconds:g} s"
            lines.append(f"{where}: {self.gave_up}. {left}; run this again when it is up.")
        return lines
