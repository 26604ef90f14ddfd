"""Admission shares slots between senders with slow batches and senders with quick ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy import Engine, text
from tests.documents import STARTED_AT_MS, Plan, PlanNode, application, execution, request
from tests.serve.real import in_threads, post, post_from, service, until, writers_that_wait

from joinsight.contract.decode import MAX_REQUEST_BYTES
from joinsight.demo.runner import collector
from joinsight.serve import admission, app, ingest
from joinsight.serve.admission import MAX_SENDER_WRITING, MAX_WRITING, Admission, Busy, WriteSlots
from joinsight.serve.ingest_request import IngestRequest, Sender

GREEDY, GOOD = "127.0.0.2", "127.0.0.3"


def heavy(name: str, nodes: int) -> bytes:
    """A batch whose four plans have together so many nodes."""
    wide = [PlanNode("Union", -1), *[PlanNode("Exchange", 0, "Exchange hashpartitioning(k#1, 8)")] * (nodes // 4 - 1)]
    return request(execution(application_id=name, plans=[Plan(STARTED_AT_MS, wide)] * 4))


@contextmanager
def held(engine: Engine, name: str) -> Iterator[None]:
    """Lock the application's row, so that its documents cannot be stored."""
    with engine.connect() as connection:
        connection.execute(text("SELECT 1 FROM application WHERE application_id = :name FOR UPDATE"), {"name": name})
        yield


def test_a_sender_does_not_take_all_slots(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While all that one sender may have written at once gets stuck, another one gets slot after slot."""
    monkeypatch.setattr(app, "SLOT_SECONDS", 3)
    monkeypatch.setattr(ingest, "LOCK_SECONDS", 600)
    with collector(engine, 0, []) as (url, server):
        assert post_from(GREEDY, url, request(application(application_id="greedy"))).status_code == 200
        late: list[int] = []

        def send(number: int) -> None:
            body = request(execution(application_id="greedy", execution_id=number))
            late.append(post_from(GREEDY, url, body).status_code)

        with held(engine, "greedy"):
            join = in_threads(*(lambda n=n: send(n) for n in range(admission.MAX_CLIENT_WAITING)))
            until(lambda: writers_that_wait(engine) == MAX_SENDER_WRITING, "its slots are taken")
            assert server.collector.writing == MAX_SENDER_WRITING
            for number in range(10):
                body = request(execution(application_id="good", execution_id=number))
                assert post_from(GOOD, url, body).status_code == 200
        join()
        assert 200 in late and set(late) <= {200, 503}


@pytest.mark.matrix
def test_heavy_senders_do_not_keep_small_documents_out(engine: Engine) -> None:
    """Documents of 50,000 nodes, one after the other and several at once, do not keep small ones out."""
    with service(engine.url.render_as_string(hide_password=False)) as running:
        url, body, over = running.url, heavy("heavy", 50_000), threading.Event()
        answers: list[int] = []

        def send() -> None:
            answers.append(post_from(GREEDY, url, body).status_code)
            while not over.is_set():
                answers.append(post_from(GREEDY, url, body).status_code)

        join = in_threads(*[send] * 4)
        try:
            good = [
                post_from(GOOD, url, request(execution(application_id="light", execution_id=n))).status_code
                for n in range(20)
            ]
        finally:
            over.set()
            join()
    assert good == [200] * 20
    assert 200 in answers and set(answers) <= {200, 503}


async def settle() -> None:
    """Let all other tasks run until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


def pending(address: str, token: str | None = None, size: int = 100) -> IngestRequest:
    return IngestRequest(bytearray(size), {"client": address, "token": token})


class Writing:
    """Slots whose groups are written when the test says so."""

    def __init__(self, several_tokens: bool = False) -> None:
        self.slots = WriteSlots(self._write, lambda: several_tokens)
        self.groups: list[list[IngestRequest]] = []
        self._ends: list[asyncio.Event] = []

    async def _write(self, group: list[IngestRequest]) -> None:
        self.groups.append(group)
        self._ends.append(asyncio.Event())
        await self._ends[-1].wait()

    async def end(self, group: int) -> None:
        """The group is written, and the next one begins."""
        self._ends[group].set()
        await settle()

    @property
    def names(self) -> list[str]:
        """The addresses of each group."""
        return ["".join(str(each.key[0]) for each in group) for group in self.groups]


def test_slots_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders that wait get slots in rotation, however many more one of them asks for."""
    monkeypatch.setattr(admission, "MAX_GROUP_REQUESTS", 1)

    async def scenario() -> str:
        writing = Writing()
        for name in "aaaaaabbbcd":
            writing.slots.add(pending(name))
        await settle()
        assert len(writing.groups) == MAX_WRITING
        for number in range(11):
            await writing.end(number)
        return "".join(writing.names)

    assert asyncio.run(scenario()) == "aabbacbdaaa"


def test_requests_that_wait_for_a_slot_are_written_together() -> None:
    """A request that finds a free slot is written at once; those that wait form a group, one of each sender in turn."""

    async def scenario() -> list[str]:
        writing = Writing()
        for name in "aabbccccdde":
            writing.slots.add(pending(name))
        await settle()
        for group in range(2):
            await writing.end(group)
        return writing.names

    assert asyncio.run(scenario()) == ["a", "a", "b", "b", "cdecdcc"]


@pytest.mark.parametrize(
    ("waiting", "groups"),
    [
        ([pending(name) for name in "cdefghi"], ["cdef", "ghi"]),  # the number of requests
        ([pending("c"), pending("d", size=950), pending("e", size=50)], ["c", "de"]),  # their size
        ([pending("c", size=2_000), pending("d", size=2_000), pending("e")], ["c", "d", "e"]),
        (
            [pending("c"), IngestRequest(bytearray(), {"client": "d", "token": None}, alone=True), pending("e")],
            list("cde"),
        ),
    ],
)
def test_groups_are_limited(monkeypatch: pytest.MonkeyPatch, waiting: list[IngestRequest], groups: list[str]) -> None:
    """In requests and in bytes; a larger request, and one that failed together with others, is written alone."""
    monkeypatch.setattr(admission, "MAX_GROUP_REQUESTS", 4)
    monkeypatch.setattr(admission, "MAX_GROUP_BYTES", 1_000)

    async def scenario() -> list[str]:
        writing = Writing()
        for name in "aabb":
            writing.slots.add(pending(name))
        for each in waiting:
            writing.slots.add(each)
        await settle()
        for group in range(MAX_WRITING + len(groups) - 1):
            await writing.end(group)
        return writing.names[MAX_WRITING:]

    assert asyncio.run(scenario()) == groups


def test_a_token_is_a_sender() -> None:
    """Those who share an address, behind a proxy say, have slots of their own if their tokens have other names."""

    async def scenario() -> None:
        writing = Writing()
        for token in ("one", "one", "other", "other"):
            assert writing.slots.add(pending("proxy", token)).done()

    asyncio.run(scenario())


def test_tokens_take_turns_before_addresses_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that many addresses use has no more turns than another one, and leaves a slot for others."""
    monkeypatch.setattr(admission, "MAX_GROUP_REQUESTS", 1)

    async def scenario() -> str:
        writing = Writing(several_tokens=True)
        for address in "abcdabcd":
            writing.slots.add(pending(address, "many"))
        await settle()
        assert writing.names == ["a", "b", "c"]
        for _ in range(2):
            writing.slots.add(pending("x", "other"))
        writing.slots.add(pending("y", "other"))
        await settle()
        for number in range(11):
            await writing.end(number)
        return "".join(writing.names)

    assert asyncio.run(scenario()) == "abcxdxaybcd"


def admitted(ticket: Admission, sender: Sender, most: int = 1_000) -> int:
    """How many requests of a sender are admitted to the queue, one after the other."""
    for number in range(most):
        try:
            ticket.ticket(sender).enqueue()
        except Busy:
            return number
    return most


def test_a_token_leaves_room_for_others_from_however_many_addresses_it_is_used() -> None:
    """Each further token still gets a share of the queue, and so does each further address with the same token."""
    shared = Admission()
    first = [admitted(shared, (f"first-{number}", "first")) for number in range(10)]
    assert first == [16, 16, 16, 16, 6, 1, 0, 0, 0, 0]
    second = [admitted(shared, (f"second-{number}", "second")) for number in range(10)]
    assert second[:4] == [13, 3, 1, 0]
    assert admitted(shared, ("third", "third")) >= 1


def test_bytes_are_shared_like_the_queue() -> None:
    """One token cannot hold so much that another token's largest request finds no room."""
    shared = Admission()

    def hold(sender: Sender) -> int:
        ticket = shared.ticket(sender)
        with suppress(Busy):
            while len(ticket.body) < MAX_REQUEST_BYTES:
                ticket.add(bytes(1 << 20))
        return len(ticket.body)

    for number in range(20):
        hold((f"first-{number}", "first"))
    assert hold(("second", "second")) == MAX_REQUEST_BYTES


def test_a_sender_is_heard_while_another_token_fills_the_queue(engine: Engine) -> None:
    """From many addresses it takes all places that it may have, and is told to come again; the other is stored."""
    first, second = ({"Authorization": f"Bearer {token}"} for token in ("one", "two"))
    with collector(engine, 0, ["first:one", "second:two"]) as (url, server):
        assert post(url, request(application(application_id="crowd")), headers=first).status_code == 200
        late: list[int] = []

        def send(number: int) -> None:
            body = request(execution(application_id="crowd", execution_id=number))
            late.append(post_from(f"127.0.1.{number % 8 + 1}", url, body, headers=first).status_code)

        with held(engine, "crowd"):
            join = in_threads(*(lambda n=n: send(n) for n in range(100)))
            waiting = server.collector._admission.waiting
            until(lambda: 429 in late and waiting.held + len(late) == 100, "the token has all places that it may have")
            for number in range(3):
                body = request(execution(application_id="alone", execution_id=number))
                assert post(url, body, headers=second).json() == {"accepted": 1, "refused": []}
        join()
    assert set(late) == {200, 429} and late.count(200) <= 72


def test_a_slot_that_comes_too_late() -> None:
    """A request that stops waiting is not written, be it before a slot is free or just then."""

    async def scenario() -> None:
        writing = Writing()
        for _ in range(MAX_SENDER_WRITING):
            writing.slots.add(pending("a"))
        early, late, last = (pending("a") for _ in range(3))
        starts = [writing.slots.add(each) for each in (early, late, last)]
        await settle()
        writing.slots.remove(early)
        starts[1].cancel()
        await writing.end(0)
        writing.slots.remove(late)
        assert not starts[0].done() and starts[1].cancelled() and starts[2].done()
        assert writing.groups[2:] == [[last]]

    asyncio.run(scenario())
