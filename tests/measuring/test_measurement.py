"""What a measurement makes of the executions that it saw."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import structs
from tests.documents import execution, longest

from joinsight.contract.document import Nested
from joinsight.measuring.measurement import Measured, _with_parts, measured_execution

DOCUMENTS = Path(__file__).parents[1] / "verdict/documents"


def test_what_a_command_started_is_measured_as_a_part_of_it() -> None:
    """Its verdict, cost and findings are of both, and the part is printed once; not what it did not start."""
    its = longest(DOCUMENTS / "udf.ndjson.gz")
    inner, other = (structs.replace(its, application_id="batch", execution_id=i, root_execution_id=i) for i in (6, 7))
    inner = structs.replace(inner, root_execution_id=5)
    nested = [Nested(6, inner.started_at_ms, inner.ended_at_ms)]
    times = {"started_at_ms": inner.started_at_ms, "ended_at_ms": inner.ended_at_ms}
    outer = execution(application_id="batch", execution_id=5, nested=nested, **times)
    measured = Measured(None)
    measured._executions, measured._problem = _with_parts([measured_execution(d) for d in (outer, inner, other)]), None
    command, part, alone = measured.executions
    assert [list(each.parts) for each in measured.executions] == [[part], [], []]
    assert (command.verdict.code, alone.verdict.code) == ("python", "python")
    assert str(measured) == f"{command}\n\n{alone}"
    for html, named in ((measured._repr_html_() or "", (5, 6, 7)), (command._repr_html_(), (5, 6))):
        assert list(dict.fromkeys(re.findall(r"batch/(\d)", html))) == list(map(str, named))
    assert measured_execution(outer).verdict.code == "nested"
