"""Web sites can neither write to nor read from a collector through their visitors' browsers."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import Engine, select
from starlette.routing import Route
from tests.documents import execution, request
from tests.serve.real import DOCUMENTS, SECONDS, get, post
from tests.serve.test_app import talk
from tests.serving import Handler, serving

from joinsight import tables
from joinsight.contract.decode import HEADERS
from joinsight.demo.runner import collector
from joinsight.serve.app import make_app
from joinsight.serve.tokens import Tokens

CHROMIUM = shutil.which("chromium") or ""
LISTS = ("broadcasts", "executions", "findings", "jobs", "joins", "queries", "regressions", "shuffles", "streams")
PAGES = (
    "/",
    "/executions/last",
    "/queries/9cbf27f7",
    "/compare",
    "/docs",
    "/docs/last",
    *(f"/{each}" for each in LISTS),
)
OPEN = ("/metrics", "/healthz", "/readyz")  # need no token
GETS = (*PAGES, *OPEN)
FOREIGN = ("http://evil.example", "http://localhost:8080", "https://localhost.evil.example", "null", "", "file://")
TOKENS = "sends\nread:reads"


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    """A collector without a token."""
    with collector(engine, 0, []) as (url, _):
        yield url


def stored(engine: Engine, beginning: str) -> list[str]:
    """The applications with such a name of which something is stored."""
    c = tables.execution.c.application_id
    with engine.connect() as connection:
        return sorted(connection.scalars(select(c).where(c.startswith(beginning)).distinct()))


def batch(name: str) -> bytes:
    return request(execution(application_id=name))


# What a request must show


def test_no_route_is_forgotten(engine: Engine) -> None:
    """Each that there is refuses a request that a page of another site makes."""
    app = make_app(engine)
    routes = [route.path for route in app.routes if isinstance(route, Route)]
    paths = [re.sub(r"{name(:\w+)?}", "last", route).replace("{key}", "9cbf27f7") for route in routes]
    assert sorted(paths) == sorted([*GETS, DOCUMENTS])


@pytest.mark.parametrize("tokens", ["", TOKENS], ids=["open", "tokens"])
@pytest.mark.parametrize("origin", FOREIGN)
def test_no_other_origin_is_answered(engine: Engine, origin: str, tokens: str) -> None:
    """This holds with and without tokens, for reading and writing; no response allows the page to read it."""
    app = make_app(engine, Tokens(tokens))

    async def conversation(client: httpx.AsyncClient) -> list[httpx.Response]:
        reads = {"Origin": origin, "Authorization": "Bearer reads"}
        answers = [await client.get(path, headers=reads) for path in GETS]
        sends = {**HEADERS, "Origin": origin, "Authorization": "Bearer sends"}
        answers.append(await client.post(DOCUMENTS, content=batch(f"origin {origin}"), headers=sends))
        return answers

    answers = talk(app, conversation)
    assert [answer.status_code for answer in answers] == [403] * (len(GETS) + 1)
    assert answers[-1].json()["error"].startswith("Cross-site request")
    assert not any(name.startswith("access-control-") for answer in answers for name in answer.headers)
    assert stored(engine, "origin") == []


@pytest.mark.parametrize("name", ["evil.example", "10.0.0.7:9595", "localhost.evil.example:9595", "[::", ""])
def test_without_a_token_no_other_name_is_answered(engine: Engine, name: str) -> None:
    """A site can have its name lead to this machine; its browser then takes the collector for the site. With tokens
    the collector has names of its own, which it does not know."""
    for tokens, status in (("", 403), (TOKENS, 200)):
        app = make_app(engine, Tokens(tokens))
        host = {"Host": name}

        async def conversation(client: httpx.AsyncClient, host: dict[str, str] = host) -> list[int]:
            found = [(await client.get(path, headers=host)).status_code for path in OPEN]
            sends = {**HEADERS, **host, "Authorization": "Bearer sends"}
            answer = await client.post(DOCUMENTS, content=batch(f"host {len(found)}"), headers=sends)
            return [*found, answer.status_code]

        assert talk(app, conversation) == [status] * 4
    assert stored(engine, "host") == ["host 3"]


def test_this_machine_is_answered_by_its_own_names(url: str) -> None:
    """This machine may use its own names, also from the collector's own pages."""
    port = url.rpartition(":")[2]
    for name in (f"localhost:{port}", "LOCALHOST", "127.0.0.1", f"[::1]:{port}", "127.5.5.5"):
        assert post(url, request(), headers={"Host": name}).status_code == 200, name
        same = {"Host": name, "Origin": f"http://{name}", "Sec-Fetch-Site": "same-origin"}
        assert post(url, request(), headers=same).status_code == 200, name
        assert get(url + "/metrics", headers={"Host": name}).status_code == 200, name


def test_a_page_of_another_site_writes_nothing_whatever_it_is_called(url: str, engine: Engine) -> None:
    """A browser says where a request comes from; a link to a page from elsewhere is followed."""
    for site in ("cross-site", "same-site"):
        answer = post(url, batch(f"fetched {site}"), headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403
        assert get(url, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert stored(engine, "fetched") == []


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x", "Content-Encoding": "gzip"},
        {"Content-Type": "text/plain;application/x-ndjson", "Content-Encoding": "gzip"},
        {"Content-Type": "application/x-ndjson"},
        {"Content-Type": "application/x-ndjson", "Content-Encoding": "identity"},
        {"Content-Encoding": "gzip"},
    ],
)
def test_what_does_not_call_itself_a_batch_is_none(url: str, engine: Engine, kind: dict[str, str]) -> None:
    """415 names what would be right; these are what a browser sends without asking first."""
    answer = httpx.post(url + DOCUMENTS, content=batch("kind"), headers=kind, timeout=SECONDS)
    assert answer.status_code == 415
    assert "Content-Type: application/x-ndjson and Content-Encoding: gzip" in answer.json()["error"]
    assert stored(engine, "kind") == []


def test_a_content_type_may_differ_in_case_and_parameters(url: str) -> None:
    kind = {"Content-Type": "Application/X-NDJSON; charset=utf-8", "Content-Encoding": "GZIP"}
    assert post(url, request(), headers=kind).json() == {"accepted": 0, "refused": []}


def test_a_preflight_allows_nothing(url: str) -> None:
    """A browser that asks whether another site's page may send a batch is not told that it may."""
    asked = {
        "Origin": "http://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,content-encoding",
        "Access-Control-Request-Private-Network": "true",
    }
    for path in (DOCUMENTS, *GETS):
        answer = httpx.request("OPTIONS", url + path, headers=asked, timeout=SECONDS)
        assert answer.status_code == 405, path
        assert not any(name.startswith("access-control-") for name in answer.headers), path


def test_the_refusal_is_logged_once(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The refusal of an address is logged once; a refused sender gets the reason."""
    app = make_app(engine)

    async def conversation(client: httpx.AsyncClient) -> None:
        for _ in range(3):
            await client.post(DOCUMENTS, content=b"", headers={**HEADERS, "Origin": "http://evil.example"})
            await client.post(DOCUMENTS, content=b"")

    talk(app, conversation)
    logged = [record for record in caplog.records if record.name == "joinsight"]
    about = {record.message: record.__dict__["fields"]["reason"] for record in logged}
    assert len(logged) == len(about) == 2
    assert "'http://evil.example'" in about["request from a web page refused"]


# A real browser

# Every way in which a page can send something or have an answer, `to` is the collector, `body` a batch in base64;
# each names its application itself, so that what is stored says which way was open
ATTACKS = """async ({to, bodies}) => {
  const bytes = name => Uint8Array.from(atob(bodies[name]), c => c.charCodeAt(0))
  const blob = (name, type) => new Blob([bytes(name)], {type})
  const read = []
  const attempt = async work => { try { await work() } catch { } }
  const post = (name, type, options) => attempt(async () => {
    const answer = await fetch(to + '/v1/documents', {method: 'POST', body: blob(name, type), ...options})
    if (answer.type != 'opaque') read.push([name, await answer.text()])
  })
  const ndjson = 'application/x-ndjson'
  const named = {'Content-Type': ndjson, 'Content-Encoding': 'gzip'}
  await post('no-cors, text', 'text/plain', {mode: 'no-cors'})
  await post('no-cors, no type', '', {mode: 'no-cors'})
  await post('no-cors, ndjson', ndjson, {mode: 'no-cors', headers: named})
  await post('no-cors, credentials', 'text/plain', {mode: 'no-cors', credentials: 'include', keepalive: true})
  await post('cors, text', 'text/plain', {mode: 'cors'})
  await post('cors, ndjson', ndjson, {mode: 'cors', headers: named})
  await post('no referrer', 'text/plain', {mode: 'no-cors', referrerPolicy: 'no-referrer'})
  navigator.sendBeacon(to + '/v1/documents', blob('beacon, text', 'text/plain'))
  navigator.sendBeacon(to + '/v1/documents', blob('beacon, ndjson', ndjson))
  await attempt(() => new Promise((done, failed) => {
    const request = new XMLHttpRequest()
    request.onload = request.onerror = done
    request.open('POST', to + '/v1/documents')
    request.send(bytes('xhr'))
  }))
  for (const [name, sandbox] of [['form', null], ['form, null origin', 'allow-scripts allow-forms']]) {
    await attempt(() => new Promise(done => {
      const frame = document.createElement('iframe')
      if (sandbox) frame.sandbox = sandbox
      const page = `<form method=post enctype=multipart/form-data action="${to}/v1/documents"><input type=file name=f>
        </form><script>
          const files = new DataTransfer()
          files.items.add(new File([Uint8Array.from(atob("${bodies[name]}"), c => c.charCodeAt(0))], 'x'))
          document.querySelector('input').files = files.files
          document.forms[0].submit()
        </scr` + `ipt>`
      let loads = 0
      frame.onload = () => ++loads == 2 && done()
      setTimeout(done, 3000)
      frame.srcdoc = page
      document.body.append(frame)
    }))
  }
  for (const path of ['/metrics', '/healthz', '/readyz', '/'])
    await attempt(async () => read.push([path, await (await fetch(to + path)).text()]))
  const text = (await Promise.all(['/metrics', '/'].map(path => new Promise(done => {
    const script = document.createElement('script')
    script.onload = () => done('ran ' + path)
    script.onerror = () => done('')
    script.src = to + path
    document.head.append(script)
  })))).join('')
  if (text) read.push(['script', text])
  return read
}"""
WAYS = (
    "no-cors, text",
    "no-cors, no type",
    "no-cors, ndjson",
    "no-cors, credentials",
    "cors, text",
    "cors, ndjson",
    "no referrer",
    "beacon, text",
    "beacon, ndjson",
    "xhr",
    "form",
    "form, null origin",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, in which a site's name leads to this machine, and which leaves it to the collector to defend itself."""
    if not CHROMIUM:
        pytest.skip("chromium is not installed (CI installs it)")
    leads = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    unarmed = "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebRTC"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", leads, unarmed])
        yield started
        started.close()


@contextmanager
def site() -> Iterator[str]:
    """Serve a web site on a free port; yields the port."""

    class Page(Handler):
        def do_GET(self) -> None:
            self.answer(200, b"<!doctype html><title>a site</title><body>", {"Content-Type": "text/html"})

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Page)) as server:
        yield str(server.server_port)


def attack(browser: Browser, page_url: str, to: str, beginning: str) -> list[Any]:
    """What a page at this address gets to read of the collector, having tried everything."""
    bodies = {way: base64.b64encode(batch(f"{beginning} {way}")).decode() for way in WAYS}
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(page_url)
        read: list[Any] = page.evaluate(ATTACKS, {"to": to, "bodies": bodies})
        return read


@pytest.mark.parametrize("name", ["evil.example", "localhost"])
def test_a_page_of_another_site_stores_and_reads_nothing(browser: Browser, url: str, engine: Engine, name: str) -> None:
    """Fetch, beacon, form and script of another site, even on this machine, can neither store nor read anything."""
    to = url.replace("127.0.0.1", "localhost")
    with site() as port:
        assert attack(browser, f"http://{name}:{port}/", to, f"page of {name}") == []
    assert stored(engine, "page of") == []
    page = get(url + "/metrics").text
    assert 'status="403"} 0.0' not in page  # its requests came as far as the collector


def test_a_site_whose_name_leads_to_this_machine(browser: Browser, url: str, engine: Engine) -> None:
    """For the browser such a page and the collector are of one origin; all that it is told is that it is refused."""
    to = url.replace("127.0.0.1", "evil.example")
    bodies = {way: base64.b64encode(batch(f"rebound {way}")).decode() for way in WAYS}
    with browser.new_context() as context:
        page = context.new_page()
        page.route("**/attack", lambda route: route.fulfill(body="<!doctype html><body>", content_type="text/html"))
        page.goto(f"{to}/attack")
        read = page.evaluate(ATTACKS, {"to": to, "bodies": bodies})
    assert stored(engine, "rebound") == []
    assert len(read) > 5
    assert all("Host not allowed" in text for _, text in read)
