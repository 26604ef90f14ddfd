"""The pages over HTTP: names of executions, parameters, errors, permissions, and limits for readers."""

from __future__ import annotations

import asyncio
import base64
import html
import re
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import httpx
import pytest
from sqlalchemy import Connection, Engine, create_engine, insert, text
from tests.documents import STARTED_AT_MS, Plan, application, draw, execution, planned, request
from tests.findings.recorded import SMALL, UNLIMITED, recordings
from tests.pages.stored import skewed
from tests.serve.real import in_threads, until, writers_that_wait

from joinsight.contract.decode import HEADERS
from joinsight.contract.document import Execution, Job
from joinsight.findings import FindingsEngine
from joinsight.pages.environment import SCRIPT, SECURITY_POLICY
from joinsight.pages.home import Overview, PageSection
from joinsight.pages.listing import Asked
from joinsight.queries.filters import SORTS
from joinsight.queries.lists import read_queries
from joinsight.serve import pages, summaries
from joinsight.serve.app import make_app
from joinsight.serve.tokens import Tokens
from joinsight.serve.user_header import UserHeader
from joinsight.store.database import connect
from joinsight.store.writer import Writer
from joinsight.tables import finding

HOUR = 3_600_000
SINCE = datetime.now(timezone.utc) - timedelta(days=7)
SKEWED = recordings()["skewed"]


@pytest.fixture(scope="module", autouse=True)
def filled(engine: Engine) -> Iterator[None]:
    """Executions with and without an attempt, two of one name, and one with findings."""
    nodes, _ = draw("Project\n  Exchange | hashpartitioning(k#1, 8)")
    twice: dict[str, Any] = {"application_id": "app-twice", "execution_id": 3}
    writer = Writer(engine, FindingsEngine(SMALL, UNLIMITED))
    writer.write([planned("Scan", **twice, sequence=1, description="the earlier one")])
    writer.write(
        [
            SKEWED,
            planned("Scan", application_id="app-plain", execution_id=12, description="without an attempt"),
            planned("Scan", application_id="team/a\r\nb", execution_id=2**63 - 1, description="an odd id"),
            planned("Scan", application_id="//odd", attempt_id="1", execution_id=5, description="an attempt of it"),
            planned("Scan", application_id="app-tried", attempt_id="2", execution_id=12, description="attempt two"),
            execution(
                **twice,
                sequence=2,
                description="the later one",
                started_at_ms=STARTED_AT_MS + HOUR,
                ended_at_ms=STARTED_AT_MS + HOUR + 5,
                state="failed",
                error="java.lang.Exception: no",
                incomplete=["3 of 9 task ends of stage 4 were not seen"],
                plans=[Plan(STARTED_AT_MS + HOUR, nodes)],
                job_name="nightly",
            ),
        ]
    )
    with engine.begin() as connection:
        connection.execute(insert(finding), skewed()[0].findings)
    yield


def talk(
    app: Any, conversation: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]], name: str = "localhost"
) -> Any:
    """With the application, under a name of its machine."""

    async def run() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{name}") as client:
            return await conversation(client)

    return asyncio.run(run())


def get(engine: Engine, path: str, tokens: str = "", name: str = "localhost", **headers: str) -> httpx.Response:
    """A page."""
    app = make_app(engine, Tokens(tokens))
    answer: httpx.Response = talk(app, lambda client: client.get(path, headers=headers), name)
    return answer


def password(user: str, token: str) -> str:
    """The header of a browser."""
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "shown"),
    {
        "app-plain/12": "without an attempt",
        "app-plain/-/12": "without an attempt",
        "app-plain//12": "without an attempt",
        "app-tried/2/12": "attempt two",
        "app-tried/12": "attempt two",
        "team/a%0D%0Ab/9223372036854775807": "an odd id",
        "team/a%0D%0Ab//9223372036854775807": "an odd id",
        "%2F%2Fodd/1/5": "an attempt of it",
        "app-twice/3": "the later one",
        "app-twice/3?started_at=2026-01-01T00:00:00Z": "the earlier one",
        "last": SKEWED.description,
    }.items(),
)
def test_an_execution_is_named_as_for_the_command(engine: Engine, path: str, shown: str) -> None:
    """APPLICATION/ID or APPLICATION/ATTEMPT/ID, where - is no attempt; its start tells those of one name apart."""
    answer = get(engine, f"/executions/{path}")
    assert answer.status_code == 200
    assert f"<h1><bdi>{shown}</bdi></h1>" in answer.text


@pytest.mark.parametrize(
    ("path", "answered"),
    {
        "/executions/app-plain/13": (404, "No execution app-plain/13."),
        "/executions/app-tried/-/12": (404, "No execution app-tried/-/12."),
        "/executions/app-plain/12?started_at=2026-01-02": (404, "No execution app-plain/12."),
        "/executions/app-plain/12?version=1": (404, "No plan version 1; the versions are 0 to 0."),
        "/executions/app-plain/12?node=7": (404, "Plan 0 has no node 7."),
        "/executions/app-plain": (400, "EXECUTION=&#39;app-plain&#39;: not a valid execution id."),
        "/executions/app-plain/12?node=x": (400, "node=&#39;x&#39;: not a valid number. Write 0 or more."),
        "/executions/app-plain/12?version=-1": (400, "version=&#39;-1&#39;: not a valid number."),
        "/executions/app-plain/12?started_at=soon": (400, "started_at=&#39;soon&#39;: not a valid time."),
        "/?state=gone": (
            400,
            "state=&#39;gone&#39;: not a valid value. Write one of running, succeeded, failed, cancelled, lost.",
        ),
        "/?sort=colour": (400, "Write one of recent, time, size, spill."),
        "/?search=--": (400, "search=&#39;--&#39;: has no letters or digits. Write words, or how they begin."),
        "/?after=yesterday": (400, "after=&#39;yesterday&#39;: not a valid page. Use a link of the list."),
        "/?before=1/lately/a//2": (400, "before=&#39;lately&#39;: not a valid time."),
        "/?sort=time&after=9999999999999999999/2026-01-01/a//2": (400, "not a valid page."),
        "/queries/xyz": (400, "key=&#39;xyz&#39;: not a valid key. Write 16 hexadecimal digits"),
        "/queries/0123456789abcdef": (404, "No execution of query 0123456789abcdef."),
        "/queries/0123?job=nobody": (404, "No execution of query 0123 in job nobody."),
        "/queries/0123?limit=7": (400, "Write one of 100, 500."),
        "/queries/0123?until=then": (400, "until=&#39;then&#39;: not a valid time."),
        "/compare": (400, "b=&#39;&#39;: not an execution. Write /compare?a=APPLICATION/12"),
        "/compare?a=app-plain/12&b=app-none/3": (404, "No execution app-none/3."),
        "/compare?a=app-plain/12@2026-01-02&b=last": (404, "No execution app-plain/12."),
        "/compare?a=app-plain/12@then&b=last": (400, "a=&#39;then&#39;: not a valid time."),
        "/compare?a=app-plain/12&b=app-plain/12&a_version=3": (404, "No plan version 3; the versions are 0 to 0."),
        "/compare?b=app-twice/3": (404, "No earlier complete run of this query in job nightly."),
        "/?limit=51": (400, "Write one of 50, 200, 1000."),
        "/?since=lately": (400, "since=&#39;lately&#39;: not a valid time. Write 30m, 2h, 7d,"),
        "/?shape=xyz": (400, "not a valid key."),
        "/?job=%00": (400, "NUL"),
    }.items(),
)
def test_a_page_that_is_not_there_says_why(engine: Engine, path: str, answered: tuple[int, str]) -> None:
    """What was asked, what is wrong with it, and what would be right."""
    status, reason = answered
    answer = get(engine, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert reason in answer.text
    assert 'href="/"' in answer.text
    assert ("offers its runs to compare" in answer.text) == (status == 404 and path.startswith("/compare"))


def test_a_drawing_and_a_page_are_files(engine: Engine) -> None:
    """`download` gives the drawing or the page as a file, with a safe name and policy; without a plan no drawing."""
    answer = get(engine, "/executions/app-plain/12?download=svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-disposition"] == 'attachment; filename="plan-app-plain-12.svg"'
    assert answer.headers["content-security-policy"] == SECURITY_POLICY
    assert ElementTree.fromstring(answer.text).tag.endswith("svg")
    both = "/compare?a=app-plain/12&b=app-plain/12"
    for address, name in (("/executions/app-plain/12?", "app-plain-12"), (both, "app-plain-12-app-plain-12")):
        page = get(engine, f"{address}&download=html")
        assert page.headers["content-disposition"] == f'attachment; filename="plan-{name}.html"'
        assert page.headers["content-security-policy"] and "needs no network" in page.text
    assert get(engine, "/executions/app-plain/12?download=png").status_code == 400
    assert get(engine, "/executions/app-none/1?download=svg").status_code == 404


def test_the_list_is_filtered_and_sorted(engine: Engine) -> None:
    """By application, job, state, query and time; what is asked stands in the form again."""

    def titles(query: str) -> list[str]:
        return re.findall(r'class="query">.*?<bdi>(.*?)</bdi>', get(engine, f"/?{query}").text)

    newest = [SKEWED.description, "the later one", "attempt two", "the earlier one", "without an attempt"]
    newest += ["an odd id", "an attempt of it"]
    assert sorted(titles("")) == sorted(newest)
    assert titles("sort=time")[:2] != titles("sort=recent")[:2]
    assert titles("job=nightly") == titles("state=failed") == ["the later one"]
    assert titles("application=app-plain") == ["without an attempt"]
    assert titles("since=2026-01-01T00:30&until=2026-01-01T02:00") == ["the later one"]
    assert get(engine, "/?job=nobody&state=failed").text.count("No matching executions.") == 1
    assert 'value="nobody"' in get(engine, "/?job=nobody").text
    page = get(engine, "/?application=" + SKEWED.application_id).text
    assert "<title>warning</title>" in page


def listed(page: str) -> list[int]:
    """The ids of the executions in a list."""
    return [int(found) for found in re.findall(r'title="[^"]*/(\d+)"', page)]


def timeless(page: str) -> str:
    """A page without times, which say when it was made."""
    return re.sub(r"\d\d:\d\d", "", page)


def link(page: str, name: str) -> str | None:
    """The address of a link to another page of a list."""
    found = re.search(rf'<a href="([^"]*)"(?: rel="\w+")?>{name}</a>', page)
    return unescape(found[1]) if found else None


@pytest.mark.parametrize("sort", SORTS["queries"])
def test_a_long_list_has_pages(engine: Engine, sort: str) -> None:
    """Each page begins where the one before it ends, also where values are equal or missing, and back again."""
    job = f"pages & {sort}"
    many = [
        execution(
            application_id=f"app-many-{sort}",
            execution_id=i,
            job_name=job,
            started_at_ms=STARTED_AT_MS + i // 3,
            state="running" if i % 7 == 0 else "succeeded",
            ended_at_ms=None if i % 7 == 0 else STARTED_AT_MS + i // 3 + i % 5,
            jobs=[Job(i, STARTED_AT_MS, [])],
        )
        for i in range(170)
    ]
    Writer(engine, FindingsEngine()).write(list(many))
    asked = Asked.of({"job": job, "sort": sort})
    with engine.connect() as connection:
        rows = read_queries(connection, replace(asked.filters, limit=1_000), sort)
    expected = [row["execution_id"] for row in rows]
    pages: list[str] = []
    address: str | None = asked.address()
    while address:
        pages.append(get(engine, address).text)
        address = link(pages[-1], "Next")
    assert [listed(page) for page in pages] == [expected[i : i + 50] for i in range(0, 170, 50)]
    assert link(pages[0], "Previous") is None and link(pages[0], "First") is None
    back: list[list[int]] = []
    address = link(pages[-1], "Previous")
    while address:
        back.append(listed(get(engine, address).text))
        address = link(get(engine, address).text, "Previous")
    assert back == [listed(page) for page in pages[-2::-1]]


def test_a_page_stays_when_executions_come(engine: Engine) -> None:
    """The second page is the same after new executions; the page before it then begins with them."""
    job = {"application_id": "app-growing", "job_name": "growing"}
    old = [execution(**job, execution_id=i, started_at_ms=STARTED_AT_MS + i) for i in range(60)]
    Writer(engine, FindingsEngine()).write(list(old))
    second = link(get(engine, "/?job=growing").text, "Next") or ""
    before = get(engine, second).text
    Writer(engine, FindingsEngine()).write([execution(**job, execution_id=60, started_at_ms=STARTED_AT_MS + 60)])
    after = get(engine, second).text
    assert listed(after) == listed(before) == list(range(9, -1, -1))
    first = get(engine, link(after, "Previous") or "").text
    assert listed(first) == list(range(59, 9, -1))
    assert listed(get(engine, link(first, "Previous") or "").text) == [60]


def test_the_home_page_says_what_happened(engine: Engine) -> None:
    """What failed in the last days, how often, and the jobs with their runs; a filter leaves the list alone."""
    now = int(time.time() * 1000)
    hours: dict[str, Any] = {"job_name": "home/<hourly>", "description": "Totals"}
    Writer(engine, FindingsEngine()).write(
        [
            *(
                planned(
                    "Project\n  Exchange | hashpartitioning(k#1, 8)",
                    **hours,
                    application_id=f"app-home-{i}",
                    started_at_ms=now - (i + 1) * HOUR,
                    ended_at_ms=now - (i + 1) * HOUR + 1_000 * (i + 1),
                )
                for i in range(4)
            ),
            *(
                planned(
                    "Project",
                    **hours,
                    application_id="app-home-failed",
                    execution_id=i,
                    started_at_ms=now - HOUR - i,
                    state="failed",
                    error=f"java.lang.Exception: no {i}\n at here",
                )
                for i in range(3)
            ),
        ]
    )
    home = get(engine, "/").text
    assert "3 times, last" in home and "java.lang.Exception: no 0<" in home
    assert "Not enough runs to compare (3 of 8 so far): a query needs 3 successful runs since " in home
    assert 'aria-label="Query time, last 5 runs:' in home
    assert '<option value="home/&lt;hourly&gt;">' in home
    only = get(engine, "/?state=failed").text
    assert 'id="worse"' not in only and '<option value="home/&lt;hourly&gt;">' in only
    assert "Nothing is stored yet" not in home


def test_the_home_page_says_how_many_queries_have_enough_runs_to_compare(make_store: Callable[[], str]) -> None:
    """A query that was a hundred times faster before ran too rarely: nothing says that no query is slower."""
    now = int(time.time() * 1000)

    def ran(job: str, hours_ago: int, length_ms: int) -> Execution:
        at = now - hours_ago * HOUR
        application = f"app-{job}-{hours_ago}"
        return planned("Scan", application_id=application, job_name=job, started_at_ms=at, ended_at_ms=at + length_ms)

    with connect(make_store()) as engine:
        Writer(engine).write([ran("rare", 300, 800), ran("rare", 3, 80_000)])
        home = get(engine, "/").text
        assert re.search(r"No findings: \d+ checks of 1 execution\.", home)
        [address] = re.findall(r'"(/queries/[^"]*)"', home[home.index("slower than their previous run") :])[:1]
        for page in (home, get(engine, html.unescape(address)).text):
            assert "Not enough runs to compare (2 of 8 so far): " in page
            assert "800 ms → 1 min 20 s, 100×" in page
    with connect(make_store()) as engine:
        ages = [*range(2, 8), *range(200, 210)]
        Writer(engine).write([ran("rare", 300, 800), ran("rare", 3, 80_000), *(ran("often", age, 900) for age in ages)])
        home = get(engine, "/").text
    assert ": 1 of 2 queries compared." in home and "slower" not in home


def test_a_query_leads_to_its_runs_and_a_comparison(engine: Engine) -> None:
    """By its key or how it begins, in its last job or the one that is asked for; two of its runs are compared."""
    runs = [
        planned(
            "Project\n  Exchange | hashpartitioning(only_here#1, 8) | shuffle bytes written=" + str(size),
            application_id=f"app-through-{i}",
            job_name=f"job {i // 4}",
            description=f"run {i}",
            started_at_ms=STARTED_AT_MS + i * HOUR,
            ended_at_ms=STARTED_AT_MS + i * HOUR + 1_000,
        )
        for i, size in enumerate([10**6] * 5 + [10**9])
    ]
    Writer(engine, FindingsEngine()).write(list(runs))
    with engine.connect() as connection:
        [row] = read_queries(connection, replace(Asked.of({"application": "app-through-5"}).filters, limit=1), "recent")
    whole = get(engine, f"/queries/{row['query_shape']}").text
    assert "<h1><bdi>run 5</bdi></h1>" in whole and whole.count('name="a"') == 2
    again = get(engine, f"/queries/{row['query_shape'][:8]}").text
    assert timeless(again) == timeless(whole)
    other = get(engine, f"/queries/{row['query_shape']}?job=job+0").text
    assert "<h1><bdi>run 3</bdi></h1>" in other and other.count('name="a"') == 4
    assert "1 other job with this query" in other
    early = get(engine, f"/queries/{row['query_shape']}?job=job+0&until=2026-01-01T01:30").text
    assert early.count('name="a"') == 2 and ">The latest runs</a>" in early
    compared = get(engine, "/compare?a=app-through-4/0&b=app-through-5/0").text
    assert "written 976.6 KiB → 953.7 MiB" in compared and "1,000×" in compared
    assert get(engine, "/compare?b=app-through-5/0").text == compared  # the run before it
    named = re.findall(r'name="[ab]" value="([^"]*)"', whole)
    assert len(named) == 4
    assert get(engine, f"/compare?a={named[2]}&b={named[1]}").text == compared


def test_what_is_unsure_is_said(engine: Engine) -> None:
    """The error of a failed execution, and why its numbers may be partial."""
    page = get(engine, "/executions/app-twice/3").text
    assert "java.lang.Exception: no" in page
    assert "These numbers may be partial" in page
    assert "3 of 9 task ends of stage 4 were not seen" in page


def test_a_page_does_nothing_but_show(engine: Engine) -> None:
    """No script but our own, nothing from elsewhere, in no frame of another site, kept in no cache; errors too."""
    for path in ("/", "/executions/last", "/executions/none/1"):
        answer = get(engine, path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';")
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        others = answer.text.replace(f"<script>{SCRIPT}</script>", "")
        assert not re.search(r"<script| style=| on[a-z]+=", others)
        leads = re.findall(r'(?:href|src|action)="([^"]*)', answer.text)
        assert leads and all(re.match(r"/(?!/)|\?|#|data:image/svg", target) for target in leads), leads


def test_tokens_open_the_pages(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """As a browser shows them, with any user name, or as a sender does; without one it is asked for."""
    asked = get(engine, "/", "ann:first\nsecond")
    assert (asked.status_code, asked.headers["www-authenticate"]) == (401, 'Basic realm="Joinsight", charset="UTF-8"')
    assert "token as the password" in asked.text
    assert "without an attempt" not in asked.text
    assert "unauthenticated client" not in caplog.text  # a browser asks once before it knows
    for path in ("/", "/executions/app-plain/12", "/executions/none/1"):
        assert get(engine, path, "read:ann:first").status_code == 401
    for user, token in (("", "first"), ("anyone", "second")):
        shown = password(user, token)
        answer = get(engine, "/", "read:ann:first\nread:second", name="collector.example", authorization=shown)
        assert answer.status_code == 200, user
    assert get(engine, "/", "read:first", authorization=password("first", "")).status_code == 401
    assert "unauthenticated client" in caplog.text
    assert get(engine, "/", "read:first", authorization="Bearer first").status_code == 200
    for bad in ("Bearer x", "Basic", "Basic first", "Basic !!!", "Basic /w==", "Digest first", "Bearer OmZpcnN0"):
        assert get(engine, "/", "read:first", authorization=bad).status_code == 401, bad


@pytest.mark.parametrize("value", ["ann", "", "first", "Bearer first", "x" * 8_000])
def test_no_header_of_a_proxy_opens_a_page(engine: Engine, value: str) -> None:
    """Who reaches the collector without the proxy can write each of them: only a token opens the pages."""
    names = ("X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-User", "Remote-User", "X-Forwarded-Access-Token")
    tokens = Tokens("read:ann:first")
    for name in (*names, "Proxy-Authorization", "X-Authorization", "Authorization_"):
        for headers in ([(name, value)], [(name, value), (name, "ann")], [("Authorization", ""), (name, value)]):
            answer = talk(make_app(engine, tokens), partial(httpx.AsyncClient.get, url="/", headers=headers))
            assert answer.status_code == 401, headers
    twice = [("Authorization", "Bearer wrong"), ("Authorization", "Bearer first")]
    assert talk(make_app(engine, tokens), partial(httpx.AsyncClient.get, url="/", headers=twice)).status_code == 401


PROXY = UserHeader("proxy", "X-Forwarded-User")
PERSON = re.compile(r'<a class="user" href="([^"]*)"[^>]*><bdi>([^<]*)</bdi>')


def person(engine: Engine, *headers: tuple[str, str | bytes], token: str = "first", path: str = "/") -> Any:
    """The link in the bar of a page that was requested with these headers: address and text; None without one."""
    app = make_app(engine, Tokens("read:proxy:first\nread:ann:second"), user_header=PROXY)
    sent: Any = [("Authorization", f"Bearer {token}"), *headers]
    answer = talk(app, partial(httpx.AsyncClient.get, url=path, headers=sent))
    assert answer.status_code in (200, 404), answer.status_code
    links = PERSON.findall(answer.text)
    assert answer.text.count('class="user"') == len(links) <= 1
    return tuple(map(unescape, links[0])) if links else None


@pytest.mark.parametrize("path", ["/", "/jobs", "/executions/app-plain/12", "/executions/none/1", "/docs"])
def test_a_page_names_the_user_of_a_proxy(engine: Engine, path: str) -> None:
    """The name leads to the queries of this user; without the header, or without the option, there is none."""
    assert person(engine, ("X-Forwarded-User", "ann b"), path=path) == ("/queries?user=ann+b", "ann b")
    assert person(engine, path=path) is None
    header = {"authorization": "Bearer first", "x-forwarded-user": "ann"}
    assert 'class="user"' not in get(engine, path, "read:proxy:first", **header).text


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ([("X-Forwarded-User", "ann")], "second"),  # of a reader who is not the proxy
        ([("X-Forwarded-User", "ann"), ("X-Forwarded-User", "ben")], "first"),
        ([("X-Forwarded-User", ""), ("X-Forwarded-User", "ben")], "first"),
        ([("X_Forwarded_User", "ann"), ("X-Forwarded-Email", "ann")], "first"),
        ([("X-Forwarded-User", "x" * 257)], "first"),
        ([("X-Forwarded-User", "")], "first"),
        *(
            ([("X-Forwarded-User", value)], "first")
            for value in (
                b"a\0b",
                b"a\r\nb",
                b"a\tb",
                b"\x1b[2J",
                b"a\x7f",
                b"\xff",
                "a\u202eb".encode(),
                "\u2028".encode(),
            )
        ),
    ],
)
def test_a_header_names_nobody(engine: Engine, headers: list[tuple[str, str | bytes]], token: str) -> None:
    """With another token, repeated, under another name, too long, or with what is not text: the page is without it."""
    assert person(engine, *headers, token=token) is None


def test_the_name_of_a_user_is_text(engine: Engine) -> None:
    """Whatever a proxy passes is escaped, in the text and in the link, and cut; other alphabets are shown."""
    hostile = "<script>alert(1)</script>\"'&{{ 7 * 7 }}&user=ben#?/../"
    href, shown = person(engine, ("X-Forwarded-User", hostile))
    assert shown == hostile[:39] + "…"
    assert parse_qs(urlsplit(href).query) == {"user": [hostile]} and urlsplit(href).path == "/queries"
    assert person(engine, ("X-Forwarded-User", "Ünal 李".encode()))[1] == "Ünal 李"


def test_a_user_header_opens_nothing(engine: Engine) -> None:
    """Without a reader's token there is no page, and a page saved as a file does not have the name."""
    app = make_app(engine, Tokens("read:proxy:first\nsender"), user_header=PROXY)
    for shown in ("", "Bearer wrong", "Bearer sender", password("ann", "")):
        headers = {"Authorization": shown, "X-Forwarded-User": "ann"}
        answer = talk(app, partial(httpx.AsyncClient.get, url="/", headers=headers))
        assert (answer.status_code, 'class="user"' in answer.text) == (401, False), shown
    headers = {"Authorization": "Bearer first", "X-Forwarded-User": "ann-who-saves"}
    saved = talk(app, partial(httpx.AsyncClient.get, url="/executions/app-plain/12?download=html", headers=headers))
    assert saved.status_code == 200 and "ann-who-saves" not in saved.text


def test_a_user_is_of_one_request(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The next request on the same connection does not have it; an invalid header is logged once, without its text."""
    app = make_app(engine, Tokens("read:proxy:first"), user_header=PROXY)
    bearer = {"Authorization": "Bearer first"}

    async def conversation(client: httpx.AsyncClient) -> list[bool]:
        names: tuple[dict[str, str], ...] = (
            {"X-Forwarded-User": "ann"},
            {},
            {"X-Forwarded-User": "a\tb"},
            {"X-Forwarded-User": "a\tb"},
        )
        answers = [await client.get("/docs", headers={**bearer, **each}) for each in names]
        return ['class="user"' in answer.text for answer in answers]

    assert talk(app, conversation) == [True, False, False, False]
    logged = [record.getMessage() for record in caplog.records if "header" in record.getMessage()]
    assert logged == ["user header ignored: repeated, too long or not printable"]


@pytest.mark.parametrize("line", ["first", "ann:first", "send:first", "send:ann:first"])
def test_a_senders_token_reads_nothing(engine: Engine, line: str) -> None:
    """Neither as a password nor as a bearer token: it is in the hands of all who run jobs."""
    for path in ("/", "/executions/app-plain/12"):
        for shown in (password("ann", "first"), "Bearer first"):
            answer = get(engine, path, f"{line}\nread:bob:second", authorization=shown)
            assert answer.status_code == 401
            assert "tokens do not open pages" in answer.text
            assert "without an attempt" not in answer.text


def test_a_browsers_password_writes_nothing(engine: Engine) -> None:
    """Another site could make a browser post documents with it; senders show a bearer token of their own kind."""
    app = make_app(engine, Tokens("first\nread:second"))
    body = request(application(application_id="app-forged"))
    shown_and_answered = (
        (password("", "first"), 401),
        (password("", "second"), 401),
        ("Bearer second", 401),
        ("Bearer first", 200),
    )
    for shown, status in shown_and_answered:
        headers = {**HEADERS, "Authorization": shown}
        sent = partial(httpx.AsyncClient.post, url="/v1/documents", content=body, headers=headers)
        answer = talk(app, sent)
        assert answer.status_code == status


def test_without_tokens_only_this_machine_is_answered(engine: Engine) -> None:
    """By its own names: a site whose name leads here could else read what is here in its visitors' browsers."""
    for name in ("localhost:9595", "127.0.0.1", "[::1]:9595"):
        assert get(engine, "/", name=name).status_code == 200, name
    for name in ("evil.example", "10.0.0.7:9595", "localhost.evil.example"):
        answer = get(engine, "/executions/last", name=name)
        assert (answer.status_code, "Host not allowed" in answer.text) == (403, True), name
        assert get(engine, "/", "first", name=name).status_code == 401


def test_a_database_that_is_away_is_said(engine: Engine) -> None:
    """Without its database a page is a 503 that shows neither the address nor a statement."""
    away = create_engine(engine.url.set(port=1))
    answer = get(away, "/executions/last")
    assert (answer.status_code, "The database does not respond" in answer.text) == (503, True)
    assert str(engine.url.database) not in answer.text


def test_readers_do_not_keep_senders_waiting(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While more pages are requested than are rendered at once, and each of these hangs, a batch is stored."""
    monkeypatch.setattr(pages, "TURN_SECONDS", 1)
    app = make_app(engine)

    async def conversation(client: httpx.AsyncClient) -> list[httpx.Response]:
        with engine.connect() as connection:
            connection.execute(text("LOCK TABLE finding IN ACCESS EXCLUSIVE MODE"))
            asked = [asyncio.ensure_future(client.get("/")) for _ in range(20)]
            await asyncio.to_thread(until, lambda: writers_that_wait(engine) == pages.MAX_READING, "readers hang")
            body = request(application(application_id="app-meanwhile"))
            stored = await client.post("/v1/documents", content=body, headers=HEADERS)
            assert stored.status_code == 200
            given_up = [await answer for answer in asyncio.as_completed(asked[pages.MAX_READING :])]
            assert not any(answer.done() for answer in asked[: pages.MAX_READING])
        assert {(await answer).status_code for answer in asked[: pages.MAX_READING]} == {200}
        return given_up

    for answer in talk(app, conversation):
        assert (answer.status_code, "Too many concurrent page requests" in answer.text) == (503, True)


def test_a_page_that_takes_too_long(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page whose statement takes too long is a 503 that says so."""
    monkeypatch.setattr(pages, "STATEMENT_SECONDS", 1)
    answer = home_while_locked(engine, "execution")
    assert (answer.status_code, "The database took longer than 1 s." in answer.text) == (503, True)


def test_a_page_does_without_what_takes_too_long(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a table is locked, sentences stand for what is read from it, and the list stands."""
    monkeypatch.setattr(summaries, "STATEMENT_SECONDS", 1)
    answer = home_while_locked(engine, "finding")
    assert answer.status_code == 200 and listed(answer.text)
    assert "Findings took too long to compute. Run <code>joinsight findings</code>." in answer.text
    assert "Marks of findings took too long to compute." in answer.text


def home_while_locked(engine: Engine, table: str) -> Any:
    """The answer of the home page while nobody may read the table."""
    app = make_app(engine)
    with engine.connect() as connection:
        connection.execute(text(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
        return talk(app, lambda client: client.get("/"))


PLANT = """CREATE OR REPLACE FUNCTION {name} RETURNS SETOF {view} LANGUAGE plpgsql AS $$
    BEGIN RAISE '%', current_setting('statement_timeout') USING ERRCODE = '{state}'; END $$"""
REGRESSIONS = (
    "joinsight_regressions(since timestamptz, job text DEFAULT NULL, shape text DEFAULT NULL)",
    "v_regressions",
)
FINDINGS = ("joinsight_finding_groups(since timestamptz)", "v_finding_groups")
PARTS = {"Regressions": (REGRESSIONS, "joinsight regressions"), "Findings": (FINDINGS, "joinsight findings")}


def break_function(engine: Engine, signature: tuple[str, str], state: str) -> None:
    """A function of the database from now on fails with this SQLSTATE and tells its statement timeout."""
    name, view = signature
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TYPE broken_row AS ({columns_of(connection, view)})"))
        connection.execute(text(f"DROP FUNCTION {name.partition('(')[0]} CASCADE"))
        connection.execute(text(PLANT.format(name=name, view="broken_row", state=state)))


def columns_of(connection: Connection, view: str) -> str:
    """The columns of a view, with their types."""
    columns = connection.execute(
        text(
            "SELECT quote_ident(attname) || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = CAST(:view AS regclass) AND attnum > 0 ORDER BY attnum"
        ),
        {"view": view},
    )
    return ", ".join(columns.scalars())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("state", "why"), [("57014", "took too long to compute."), ("22012", "could not be computed;")]
)
def test_parts_of_the_home_page_are_independent(
    empty: Engine, caplog: pytest.LogCaptureFixture, part: str, state: str, why: str
) -> None:
    """A sentence and a command stand for a part that takes too long or fails; the others and the list stand."""
    signature, command = PARTS[part]
    now = int(time.time() * 1000)
    Writer(empty, FindingsEngine(SMALL, UNLIMITED)).write(
        [
            planned("Scan", execution_id=i, job_name="my job", started_at_ms=now - HOUR, state=ended)
            for i, ended in enumerate(["succeeded", "failed"])
        ]
    )
    break_function(empty, signature, state)
    home, job = get(empty, "/").text, get(empty, "/?job=my+job").text
    for page in (home, job):
        assert f"{part} {why}" in page
        assert ("Not enough runs to compare (" in page) == (part != "Regressions")
        assert ("No findings: " in page) == (part != "Findings")
        assert page.count("took too long to compute") + page.count("could not be computed") == 1
        assert len(listed(page)) == 2 and '<h2 id="failed">Failures</h2>\n<ul' in page
    assert f"<code>{command}</code>" in home and 'id="jobs-heading"' in home
    assert f"<code>{command} --job &#39;my job&#39;</code>" in job
    told = [record.__dict__["fields"] for record in caplog.records if record.name == "joinsight"]
    limit = f"{summaries.STATEMENT_SECONDS // 60}min"
    assert [(each["part"], each["reason"].split()[0]) for each in told] == [(part.lower(), limit)] * 2


def test_a_query_does_without_its_regressions(empty: Engine) -> None:
    Writer(empty).write([planned("Scan", application_id="app-slow", job_name="nightly")])
    with empty.connect() as connection:
        [row] = read_queries(connection, Asked.of({}).filters, "recent")
    break_function(empty, REGRESSIONS, "57014")
    page = get(empty, f"/queries/{row['query_shape']}").text
    assert "Regressions took too long to compute. Run <code>joinsight regressions --job nightly</code>." in page
    assert "This is the only run." in page


def test_expensive_parts_are_computed_once_a_minute(empty: Engine) -> None:
    """For all readers meanwhile, of all jobs and of each job; the page says as of when."""
    now = 0.0
    cache = summaries.Summaries(lambda: now)
    Writer(empty, FindingsEngine(SMALL, UNLIMITED)).write([SKEWED])

    def overview(job: str | None = None) -> Overview:
        with empty.connect() as connection:
            return cache.overview(connection, job, PageSection(), SINCE)

    first = overview()
    assert overview("another").regressions is not first.regressions
    now = summaries.FRESH_SECONDS - 1
    again = overview()
    assert (again.regressions is first.regressions, again.findings is first.findings) == (True, True)
    assert again.failures is not first.failures
    now = summaries.FRESH_SECONDS + 1
    with empty.connect() as lock:
        lock.execute(text("LOCK TABLE finding IN ACCESS EXCLUSIVE MODE"))
        found: list[Overview] = []
        join = in_threads(*[lambda: found.append(overview())] * 3)
        until(lambda: writers_that_wait(empty) == 1, "one of them computes the findings")
        lock.rollback()
    join()
    assert len({id(each.findings) for each in found}) == 1 and found[0].findings is not first.findings
    for number in range(2 * summaries.MAX_CACHED):
        overview(f"job {number}")
    assert len(cache._cached) == summaries.MAX_CACHED


def read_findings(engine: Engine, how: str) -> None:
    """Make whoever reads findings run these statements."""
    with engine.begin() as connection:
        for statement in (
            "ALTER TABLE finding RENAME TO those",
            f"CREATE FUNCTION found() RETURNS SETOF those LANGUAGE plpgsql AS $$ BEGIN {how}; END $$",
            "CREATE VIEW finding AS SELECT * FROM found()",
        ):
            connection.execute(text(statement))


def test_a_database_may_speak_any_language(empty: Engine) -> None:
    """What takes too long is known by its SQLSTATE."""
    Writer(empty).write([execution()])
    read_findings(empty, "RAISE 'Zeitüberschreitung' USING ERRCODE = 'query_canceled'")
    answer = get(empty, "/executions/last")
    assert (answer.status_code, f"longer than {pages.STATEMENT_SECONDS} s" in answer.text) == (503, True)


def test_readers_cannot_write(empty: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A page is read in a read-only transaction, whatever a view in the database does."""
    Writer(empty).write([execution()])
    read_findings(empty, "DELETE FROM application; RETURN")
    assert get(empty, "/executions/last").status_code == 503
    reasons = [record.__dict__["fields"]["reason"] for record in caplog.records if record.name == "joinsight"]
    assert reasons == [
        'cannot execute DELETE in a read-only transaction\nCONTEXT:  SQL statement "DELETE FROM'
        ' application"\nPL/pgSQL function found() line 1 at SQL statement'
    ]
    with empty.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM application")) == 1
