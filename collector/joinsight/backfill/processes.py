"""Reads logs on this machine in several processes, each with its own JVM."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from joinsight.backfill.log_file import LogFile
from joinsight.backfill.tasks import LogResult, Store, read_logs
from joinsight.base.errors import JoinsightError


def read_in_processes(store: Store, shares: Sequence[Sequence[LogFile]]) -> list[LogResult]:
    """Read and write the logs of each share in a process of its own.

    Raises `JoinsightError` as soon as a process fails or is killed; the others are terminated.
    """
    context = multiprocessing.get_context("spawn")
    running: dict[Connection, BaseProcess] = {}
    results: list[LogResult] = []
    try:
        for share in shares:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(sender, store, share), daemon=True)
            process.start()
            sender.close()  # the process has the only other one: its end ends the results
            running[receiver] = process
        while running:
            for receiver in [each for each in wait(list(running)) if isinstance(each, Connection)]:
                try:
                    message = receiver.recv()
                except (EOFError, OSError):
                    raise JoinsightError(_ended(running[receiver])) from None
                if message is None:
                    running.pop(receiver).join()
                elif isinstance(message, str):
                    raise JoinsightError(message)
                else:
                    results.append(message)
    finally:
        for each in running.values():
            each.terminate()
            each.join()
    return results


def _work(results: Connection, store: Store, share: Sequence[LogFile]) -> None:
    """Send each log's result, then None, or the message of the error that stopped this process."""
    try:
        for result in read_logs(store, share):
            results.send(result)
        results.send(None)
    except JoinsightError as error:
        results.send(str(error))
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # nobody waits for the rest


def _ended(process: BaseProcess) -> str:
    process.join()
    code = process.exitcode
    return f"A process that reads event logs ended with exit code {code}{' (killed)' if code == -9 else ''}."
