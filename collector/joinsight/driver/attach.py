"""Attaches the listener to a PySpark session: ``joinsight.attach(SparkSession.builder, url="http://collector:9595")``.

What it does depends on what runs: without a JVM, settings of the builder are enough; in a JVM without a context (under
``spark-submit``, or after ``stop()``) the jar is added to the class loader; with a running context, the
listener is added to it. On any error the job runs without the listener, with a `JoinsightWarning`.
"""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.driver.call_sites import install

LISTENER = "io.joinsight.JoinsightListener"
PLUGIN = "io.joinsight.JoinsightPlugin"
DEFAULT_URL = "http://127.0.0.1:9595"

_ATTACHMENT = "io.joinsight.Attachment"
_EXTRA_LISTENERS = "spark.extraListeners"
_PLUGINS = "spark.plugins"
_CONNECT = "a Spark Connect client has no driver"
_DRIVER_CLASS_PATH = "spark.driver.extraClassPath"
_JARS = "spark.jars"
_DISTRIBUTED = (_JARS, "spark.yarn.dist.jars")
"""Settings of jars that executors get; spark-submit moves those of `--jars` to the second one for YARN."""
_MASTER = "spark.master"
_CLUSTERS = ("spark://", "local-cluster[", "yarn", "k8s://")
"""Masters whose executors have what `spark.jars` names before they load plugins."""
_ENABLED = "spark.joinsight.enabled"
_SAMPLE_INTERVAL = "spark.joinsight.sampleInterval"
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_PROPERTIES_FILE = "--properties-file"
_OPTIONS = {
    "--conf": "",
    "-c": "",
    "--driver-class-path": _DRIVER_CLASS_PATH,
    "--jars": _JARS,
    "--master": _MASTER,
    _PROPERTIES_FILE: _PROPERTIES_FILE,
}
"""Options of spark-submit that take a value, with the setting that they are."""

Builder = TypeVar("Builder")


class JoinsightWarning(UserWarning):
    """The listener is not attached, or attached with other settings; the job is not affected."""


def listener_jar() -> Path:
    """Path of the listener's jar, for ``--jars`` or ``spark.jars``. Raises `FileNotFoundError` if the installation
    lacks it."""
    jar = Path(str(files("joinsight"))) / "jars" / "joinsight-listener.jar"
    if not jar.is_file():
        raise FileNotFoundError(
            f"{jar} is missing: this installation of joinsight has no listener. Install the wheel or, in a checkout,"
            " run: make jar"
        )
    return jar


def attach(
    builder: Builder,
    url: str = DEFAULT_URL,
    *,
    job_name: str | None = None,
    tags: Mapping[str, str] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    jar: str | os.PathLike[str] | None = None,
    call_sites: bool = True,
    advice: str | os.PathLike[str] | None = None,
) -> Builder:
    """Have the listener report every SQL execution of the session that `builder` makes to the collector at `url`.

    Returns the builder. `job_name` names the job in the history (default: the application's name); `tags` are free
    labels; `token_file` holds the collector's token (default: the environment variable JOINSIGHT_TOKEN). If a
    SparkContext is already running, the listener is added to it at once; an attached listener stays. So a second call
    with the same settings does nothing, and one with other settings warns: stop the context to change them.

    Task time is sampled, in local mode by the listener. On a cluster executors do that by `spark.plugins`, to which a
    new context's settings are added; the setting ``spark.joinsight.sampleInterval=0`` switches it off.

    `call_sites`: let Spark name the line of your Python code for each query, ``count at /jobs/sales.py:42``.

    `advice`: a file of advice that `try_advice` has accepted; verdicts then say where a query runs without it.

    Never raises: if the listener cannot be attached it warns with `JoinsightWarning`, and Spark runs without it.
    """
    try:
        settings = _settings(url, job_name, tags or {}, token_file)
        if advice is not None:
            from joinsight.contract import accepted_advice  # not for each command and job: it decodes JSON

            try:
                settings[accepted_advice.SETTING] = accepted_advice.to_setting(accepted_advice.read_file(Path(advice)))
            except ConfigurationError as error:
                warnings.warn(f"Queries are compared with no accepted advice: {error}", JoinsightWarning, stacklevel=2)
        path = Path(jar) if jar is not None else listener_jar()
        if not path.is_file():
            raise FileNotFoundError(f"there is no listener jar at {path}; omit jar= to use the package's own")
        _attach(builder, path.resolve(), settings)
        install(call_sites)
    except Exception as error:
        warnings.warn(f"Joinsight is not attached, the job runs without it: {error}", JoinsightWarning, stacklevel=2)
    return builder


def classic_context(session: Any) -> Any:
    """The SparkContext of a session. Raises `JoinsightError` if it has none, or if that has stopped."""
    context = getattr(session, "_sc", None)
    if context is None:
        is_connect = type(session).__module__.startswith("pyspark.sql.connect.")
        raise JoinsightError(
            f"{_CONNECT}; measure where the server runs" if is_connect else f"{session!r} is not a SparkSession"
        )
    if context._jsc is None or context._jsc.sc().isStopped():
        raise JoinsightError("This SparkSession has been stopped.")
    return context


def _settings(
    url: str, job_name: str | None, tags: Mapping[str, str], token_file: str | os.PathLike[str] | None
) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url={url!r} is not the address of a collector; write it like http://collector:9595")
    settings = {"spark.joinsight.url": url}
    if job_name is not None:
        settings["spark.joinsight.jobName"] = job_name
    if token_file is not None:
        settings["spark.joinsight.tokenFile"] = os.fspath(token_file)
    return settings | {f"spark.joinsight.tag.{name}": value for name, value in tags.items()}


def _attach(builder: Any, jar: Path, settings: dict[str, str]) -> None:
    from pyspark import SparkContext

    options: dict[str, str] = getattr(builder, "_options", {})
    if "spark.remote" in options or os.environ.get("SPARK_REMOTE"):
        raise RuntimeError(f"{_CONNECT}; set spark.jars and spark.extraListeners where the server starts")
    if SparkContext._active_spark_context is not None:
        _attach_to_running(SparkContext._active_spark_context, jar, settings)
        return
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        jvm: Any = SparkContext._jvm
        _add_to_class_loader(jvm, jar)
        submitted = jvm.org.apache.spark.SparkConf()
        present = {pair._1(): pair._2() for pair in submitted.getAll()} | options
    else:
        present = _submitted() | options
        _add_to_class_path(builder, jar, present)
    for key, value in settings.items():
        builder.config(key, value)
    builder.config(_EXTRA_LISTENERS, _join(present.get(_EXTRA_LISTENERS), LISTENER, ","))
    if _can_sample(present):
        builder.config(_PLUGINS, _join(present.get(_PLUGINS), PLUGIN, ","))
    elif PLUGIN not in present.get(_PLUGINS, ""):
        return
    if not _has(present, jar):
        builder.config(_JARS, _join(present.get(_JARS), str(jar), ","))


def _can_sample(present: Mapping[str, str]) -> bool:
    """Whether executors should sample: not in local mode, where the listener does, and not on a cluster of which it is
    not known that executors get what `spark.jars` names. An executor without the plugin's class ends the job."""
    wanted = present.get(_ENABLED, "true") != "false" and not re.fullmatch(r"0\D*", present.get(_SAMPLE_INTERVAL, ""))
    return wanted and present.get(_MASTER, "local").startswith(_CLUSTERS)


def _add_to_class_path(builder: Any, jar: Path, present: Mapping[str, str]) -> None:
    """For a JVM that will start: its `--conf` options come from the builder, and those of PYSPARK_SUBMIT_ARGS after."""
    submitted = _options_of(os.environ.get(_SUBMIT_ARGS, ""))
    if _has(submitted, jar):
        return
    if _DRIVER_CLASS_PATH in submitted:
        raise RuntimeError(f"{_SUBMIT_ARGS} sets the driver's class path; add to it: --jars {jar}")
    builder.config(_DRIVER_CLASS_PATH, _join(present.get(_DRIVER_CLASS_PATH), str(jar), os.pathsep))


def _has(present: Mapping[str, str], jar: Path) -> bool:
    """Whether Spark will distribute a jar of this name: a second one would keep it from starting."""
    jars = ",".join(present.get(key, "") for key in _DISTRIBUTED).split(",")
    return any(Path(urlsplit(each).path).name == jar.name for each in jars)


def _submitted() -> dict[str, str]:
    """The settings with which a JVM will start, without the builder's: those of a file, then of PYSPARK_SUBMIT_ARGS."""
    options = _options_of(os.environ.get(_SUBMIT_ARGS, ""))
    file = options.get(_PROPERTIES_FILE)
    return (_properties(Path(file)) if file else _properties(_conf_folder() / "spark-defaults.conf")) | options


def _options_of(arguments: str) -> dict[str, str]:
    """The settings that arguments of ``spark-submit`` make."""
    words = iter(shlex.split(arguments))
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if name in _OPTIONS and not sign:
            value = next(words, "")
        if name in ("--conf", "-c"):
            key, _, value = value.partition("=")
            found[key] = value
        elif name in _OPTIONS:
            found[_OPTIONS[name]] = value
    return found


def _conf_folder() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))


def _properties(file: Path) -> dict[str, str]:
    """The settings of a file as Spark reads it; empty if there is none."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return {}
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    pairs = (re.match(r"\s*([^\s#!=:][^\s=:]*)\s*[=:]?\s*(.*)", line) for line in lines)
    return {pair[1]: pair[2].strip() for pair in pairs if pair}


def _join(present: str | None, added: str, separator: str) -> str:
    parts = [part for part in (present or "").split(separator) if part]
    return separator.join(parts if added in parts else [*parts, added])


def _add_to_class_loader(jvm: Any, jar: Path) -> None:
    """Spark loads listeners through the context class loader, which ``spark-submit`` makes extensible."""
    from py4j.protocol import Py4JJavaError

    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        present = jvm.java.lang.Class.forName(LISTENER, False, loader)
    except Py4JJavaError:
        pass  # it has no such class yet
    else:
        _check_version(present, jar)
        return
    if not hasattr(loader, "addURL") or "MutableURLClassLoader" not in loader.getClass().getName():
        raise RuntimeError(
            f"the JVM is already running and its class loader cannot add a jar; start it with --jars {jar} --conf"
            f" {_EXTRA_LISTENERS}={LISTENER}"
        )
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _check_version(java_class: Any, jar: Path) -> None:
    """Warn if a class is of another version than this package: of two jars, the JVM uses the one that it had first."""
    from joinsight import __version__

    source = java_class.getProtectionDomain().getCodeSource()
    place = source.getLocation().getPath() if source is not None else "an unknown place"
    version = java_class.getPackage().getImplementationVersion()
    if place != str(jar) and version != __version__:
        message = f"This is Joinsight {__version__}, but Spark has the listener of version {version}, from {place}"
        warnings.warn(f"{message}. Use the same version in both.", JoinsightWarning, stacklevel=2)


def _attach_to_running(context: Any, jar: Path, settings: dict[str, str]) -> None:
    message = call_with_context(context, jar, _ATTACHMENT, "attach", settings)
    if message is not None:
        warnings.warn(message, JoinsightWarning, stacklevel=4)


def call_with_context(context: Any, jar: Path, java_class: str, method_name: str, settings: Mapping[str, str]) -> Any:
    """Call a static method of a class in the jar with the running context and its configuration with these settings."""
    jvm, java_context = context._jvm, context._jsc.sc()
    conf = java_context.getConf()  # a copy: the application's own settings stay as they are
    for key, value in settings.items():
        conf.set(key, value)

    def array(element_class: Any, *elements: Any) -> Any:
        java_array = context._gateway.new_array(element_class, len(elements))
        for i, element in enumerate(elements):
            java_array[i] = element
        return java_array

    # py4j remembers a thread's methods by the names of their classes: a class may have only one loader
    loaders = vars(context._gateway).setdefault("_joinsight_loaders", {})
    if jar not in loaders:
        url = jvm.java.io.File(str(jar)).toURI().toURL()
        parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader = jvm.java.net.URLClassLoader(array(jvm.java.net.URL, url), parent)
        _check_version(jvm.java.lang.Class.forName(java_class, False, loader), jar)
        loaders.setdefault(jar, loader)  # that of another thread, if it was first
    parameters = array(jvm.java.lang.Class, java_context.getClass(), conf.getClass())
    method = jvm.java.lang.Class.forName(java_class, True, loaders[jar]).getMethod(method_name, parameters)
    return method.invoke(None, array(jvm.java.lang.Object, java_context, conf))
