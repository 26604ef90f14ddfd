"""Admission shares slots between senders with slow batches and senders with quick ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text
from tests.documents import STARTED_AT_MS, Plan, PlanNode, application, execution, request
from tests.serve.real import in_threads, post_from, service, until, writers_that_wait

from joinsight.demo.runner import collector
from joinsight.serve import admission, app, ingest
from joinsight.serve.admission import MAX_SENDER_WRITING, MAX_WRITING, Sender, WriteSlots

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
def test_a_good_sender_beside_heavy_ones(engine: Engine) -> None:
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


def test_slots_go_round() -> None:
    """Senders that wait get slots in rotation, however many more one of them asks for."""

    async def scenario() -> str:
        slots, given = WriteSlots(), []

        async def one(sender: Sender) -> None:
            await slots.acquire(sender)
            given.append(sender)

        asked = [asyncio.ensure_future(one((name, None))) for name in "aaaaaabbbcd"]
        await settle()
        assert len(given) == MAX_WRITING
        for number in range(len(asked)):
            slots.release(given[number])
            await settle()
        return "".join(address for address, _ in given)

    assert asyncio.run(scenario()) == "aabbacbdaaa"


def test_a_token_is_a_sender() -> None:
    """Those who share an address, behind a proxy say, have slots of their own if their tokens have other names."""

    async def scenario() -> None:
        slots = WriteSlots()
        for token in ("one", "one", "other", "other"):
            await asyncio.wait_for(slots.acquire(("proxy", token)), 5)

    asyncio.run(scenario())


def test_a_slot_that_comes_too_late() -> None:
    """A slot whose sender has gone goes to the next one, be it before it was assigned or just then."""

    async def scenario() -> None:
        slots, sender = WriteSlots(), ("a", None)
        for _ in range(MAX_SENDER_WRITING):
            await slots.acquire(sender)
        early, late, last = [asyncio.ensure_future(slots.acquire(sender)) for _ in range(3)]
        await settle()
        early.cancel()
        await settle()
        slots.release(sender)
        late.cancel()
        await settle()
        assert early.cancelled() and late.cancelled() and last.done()

    asyncio.run(scenario())
