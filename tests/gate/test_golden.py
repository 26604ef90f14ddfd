"""Golden plans: written, read back, and what differs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.measuring.test_budgets import PRUNED, SKEWED, recorded

from joinsight.base.errors import JoinsightError
from joinsight.gate.golden import Section, changed_lines, difference, from_text, to_text
from joinsight.measuring.measurement import MeasuredExecution


def sections(executions: Iterable[MeasuredExecution]) -> list[Section]:
    return [each.section for each in executions]


BROADCAST = sections(recorded("spark-aqe-to-broadcast.ndjson"))
HASHED = sections(recorded("spark-aqe-to-shuffled-hash.ndjson"))


def test_a_file_is_read_back() -> None:
    """Titles are for people; the rest is compared."""
    both = sections([*SKEWED, *PRUNED])
    text = to_text(both)
    assert text.startswith(f"# {SKEWED[0].title}\n") and text.endswith("\n")
    assert from_text(text) == both
    assert from_text(text.replace("\n", "\r\n")) == both, "as Git writes it on Windows"
    assert difference(from_text(text), both) == ""
    assert difference(from_text(text.replace("# ", "# another title of ")), both) == ""


def test_a_difference_is_explained_before_its_lines() -> None:
    sentences, lines = difference(BROADCAST, HASHED).split("\n\n")
    assert sentences.split("\n") == [
        "spark.sql.autoBroadcastJoinThreshold was 20k, is now -1.",
        "The filter EndsWith(name, ?) is gone.",
        "The join on key was broadcast, is now shuffled hash.",
        "1 fewer broadcast.",
    ]
    assert "- BroadcastHashJoin by AQE Inner (key = key)\n+ ShuffledHashJoin BuildRight Inner (key = key)\n" in lines


def test_queries_of_one_side_are_counted_and_shown() -> None:
    """Both numbers, and the plans of those that are not in both."""
    both = sections([*SKEWED, *PRUNED])
    assert difference(both, both[:1]).startswith("It ran 2 queries, and now runs 1 query.\n\n# ")
    more = difference(both[:1], both)
    assert more.startswith("It ran 1 query, and now runs 2 queries.\n\n# ")
    assert "\n+ BroadcastHashJoin BuildRight Inner (day = day)\n" in more


def test_settings_that_decide_about_plans_are_part_of_them() -> None:
    (plan,) = BROADCAST
    other = Section(plan.title, {**plan.settings, "spark.sql.cbo.enabled": "true"}, plan.lines)
    said = difference([plan], [other])
    assert said.startswith("spark.sql.cbo.enabled was not set, is now true.\n")
    assert "\n+ set spark.sql.cbo.enabled=true\n" in said


def test_lines_in_another_order_have_a_sentence() -> None:
    """A sentence for what no other sentence fits."""
    a = Section("", {}, ["Limit ?", "Sort [a], ?", "Scan t[a]"])
    b = Section("", {}, ["Sort [a], ?", "Limit ?", "Scan t[a]"])
    assert difference([a], [b]).startswith("The same operators are in another order.\n")


@pytest.mark.parametrize("text", ["# a title\n├─ Scan t\n", "Union\n  Scan t\n", "# a\nset x=1\n\n\n   deep\n"])
def test_what_is_no_golden_plan(text: str) -> None:
    with pytest.raises(JoinsightError, match="is not a line that can stand here"):
        from_text(text)


def test_a_test_without_plans_has_an_empty_file() -> None:
    assert to_text([]) == "" and from_text("") == [] and difference([], []) == ""


def test_large_plans_of_which_each_line_changed_are_compared() -> None:
    """As lines: comparing each with each other one by characters would take hours."""
    before, after = ([f"Project [column_{n} AS {name}_{n}, other_{n}]" for n in range(3000)] for name in ("old", "new"))
    found = changed_lines([*before, "Range"], [*after, "Range"])
    assert found == [*(f"- {line}" for line in before), *(f"+ {line}" for line in after), "  Range"]
