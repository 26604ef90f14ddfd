"""The entry point of pytest, and the type of the fixture: ``from joinsight.pytest_plugin import Joinsight``."""

from joinsight.measuring.pytest_plugin import Joinsight, joinsight, pytest_addoption, pytest_configure

__all__ = ["Joinsight", "joinsight", "pytest_addoption", "pytest_configure"]
