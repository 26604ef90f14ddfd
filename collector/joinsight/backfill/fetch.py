"""Puts a log that is not on this machine, or in a zip file, where the reader finds it: for `joinsight open`."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

from joinsight.base.errors import JoinsightError

_URL = re.compile(r"https?://", re.IGNORECASE)
# The address of an application in the History Server's pages, of one attempt, and of its download
_PAGE = re.compile(r"(?P<server>https?://[^?#]*?)/history/(?P<application>[^/?#]+)(?:/(?P<attempt>\d+))?(?:/.*)?")
_SECONDS = 60.0
"""Longest wait for the next bytes: the History Server makes a zip file while it sends it."""


def is_url(log: str) -> bool:
    """Whether it is downloaded."""
    return _URL.match(log) is not None


def fetch(log: str, folder: Path) -> Path:
    """The file or folder of a log: as it is, or in `folder` if it is a URL or in a zip file.

    A URL is one of the History Server's REST interface (``/api/v1/applications/ID/logs``), an application's page there,
    or any other that gives a log or a zip file of logs. Raises `JoinsightError` if that fails.
    """
    try:
        path = _download(log, folder / "download") if is_url(log) else Path(log)
        if path.is_file() and zipfile.is_zipfile(path):
            return _unpack(path, folder / "logs")
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # RuntimeError: it is encrypted
        raise JoinsightError(f"{shown(log)} cannot be read: {error}") from None
    return path


def shown(log: str) -> str:
    """A path or URL for messages, without a password."""
    return re.sub(r"(?<=//)[^/@]*@", "", log) if is_url(log) else log


def _download(url: str, target: Path) -> Path:
    import httpx

    try:
        with httpx.stream("GET", _address(url), timeout=_SECONDS, follow_redirects=True) as answer:
            if answer.status_code != 200:
                raise JoinsightError(f"{shown(url)} cannot be downloaded: status {answer.status_code}")
            with target.open("wb") as file:
                for part in answer.iter_bytes():
                    file.write(part)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise JoinsightError(f"{shown(url)} cannot be downloaded: {error or type(error).__name__}") from None
    return target


def _address(url: str) -> str:
    """The address of a page's download."""
    page = _PAGE.fullmatch(url)
    if page is None:
        return url
    attempt = f"/{page['attempt']}" if page["attempt"] else ""
    return f"{page['server']}/api/v1/applications/{page['application']}{attempt}/logs"


def _unpack(path: Path, folder: Path) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(path) as archive:
        size, free = sum(each.file_size for each in archive.infolist()), shutil.disk_usage(folder).free
        if size > free:
            raise OSError(f"unpacked, it has {size // 1_000_000:,} MB; {folder} has {free // 1_000_000:,} MB left")
        archive.extractall(folder)
    return folder
