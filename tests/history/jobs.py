"""The jobs of the generated history: names, queries, sizes and schedules; when they run, and on how much data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from tests.history.stories import STORIES, Effect, Story
from tests.history.templates import Scale, Template, template

DAY = timedelta(days=1)
LEAST_JOBS = len(STORIES) + 4
"""One for each story, one of each other schedule."""

TEAMS = ("finance", "orders", "marketing", "logistics", "risk", "support", "growth", "supply")
SUBJECTS = (
    "revenue", "invoices", "baskets", "clicks", "shipments", "refunds", "visits", "tickets", "payments", "leads",
    "prices", "stock", "claims", "messages", "devices", "sessions", "coupons", "routes", "scores", "ledger",
    "budgets", "calls", "ratings", "transfers", "alerts",
)  # fmt: skip
_MEASURES = ("net_amount", "gross_amount", "cost", "margin", "price", "fee", "value")
_GROUPS = ("channel", "country", "brand", "plan", "tier", "warehouse", "campaign")
_DIMENSIONS = ("item", "article", "service", "offer", "part")

TITLES: Mapping[str, str] = {
    "star": "{sales} by {category}",
    "chain": "{sales} by {region} and {segment}",
    "pair": "{sales} less {returns} by day",
    "hashed": "Best of {sales} with {returns} by day",
    "skewed": "{sales} by {segment}",
    "selective": "{sales} of a few by day",
    "bands": "{sales} by band",
    "reused": "{sales} against the day before",
    "totals": "{sales} by {product} and day",
    "distinct": "Who is in {sales}, by {region}",
    "top": "Top {sales} by {store}",
    "lapsed": "Who is not in {sales}",
    "write": "Write daily {sales}",
    "cached": "Cached {sales} by {segment}",
    "stream": "{sales} as they arrive",
}
CALM = (
    "star/broadcast", "chain/broadcast", "pair", "hashed", "skewed/split", "selective", "bands", "reused", "totals",
    "distinct", "top", "lapsed", "write", "cached",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a job: its templates by variant, the standard one first, and its size on an ordinary day."""

    title: str
    templates: Mapping[str, Template]
    large: float
    small: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Job:
    """A job; each of its runs is an application."""

    index: int
    name: str
    team: str
    schedule: str
    queries: tuple[Query, ...]
    hour: int
    weekday: int
    growth_per_month: float
    phase: float
    story: Story | None = None
    planted_day: int = 0

    @property
    def user(self) -> str:
        """The user that it runs as."""
        return self.name.split("/")[1] if self.schedule == "notebook" else f"svc-{self.team}"

    def effect(self, day: int) -> Effect:
        """What is planted on this day of the history."""
        return self.story.effect(day - self.planted_day) if self.story else Effect()

    def level(self, day: int, is_weekend: bool) -> float:
        """The size of its data on this day, 1 on an ordinary day at the start."""
        wave = 1 + 0.06 * math.sin(2 * math.pi * (day / 45 + self.phase))
        return wave * math.pow(self.growth_per_month, day / 30) * (0.7 if is_weekend else 1.0)


@dataclass(frozen=True, slots=True)
class Run:
    """An application of a job: when it starts, and its queries with the seconds from then to their start."""

    job: Job
    day: int
    started_at: datetime
    queries: list[tuple[float, Query, Scale]] = field(default_factory=list)


def make_jobs(count: int, days: int, seed: int) -> list[Job]:
    """All jobs; what is planted comes first, each in a job of its own."""
    return [_job(index, days, Random(f"{seed}/{index}")) for index in range(count)]


def _job(index: int, days: int, random: Random) -> Job:
    team, subject = TEAMS[index % len(TEAMS)], SUBJECTS[index // len(TEAMS) % len(SUBJECTS)]
    again = index // (len(TEAMS) * len(SUBJECTS))
    facts = f"{subject}_{again + 1}" if again else subject
    story = STORIES[index] if index < len(STORIES) else None
    schedule = "daily" if story else _schedule(index - len(STORIES))
    words = _words(team, facts, random)
    if story:
        names: tuple[str, ...] = (story.query,)
    elif schedule == "stream":
        names = ("stream",)
    elif schedule == "notebook":
        names = tuple(random.sample(CALM, 8))
    else:
        names = tuple(random.sample(CALM, random.choices((1, 2, 3), (12, 5, 1))[0]))
    name = {"notebook": f"notebooks/{facts}-{team}", "stream": f"{team}/{facts}_stream"}.get(
        schedule, f"{team}/{facts}_{schedule}"
    )
    queries = tuple(_query(each, words, story, random) for each in names)
    return Job(
        index,
        name,
        team,
        schedule,
        queries,
        hour=random.randrange(0, 9),
        weekday=random.randrange(5),
        growth_per_month=1.0 if story else random.uniform(0.99, 1.015),
        phase=random.random(),
        story=story,
        planted_day=round(story.share * days) if story else 0,
    )


def _schedule(index: int) -> str:
    """One of each kind first; then most are daily."""
    if index < 4:
        return ("hourly", "stream", "notebook", "weekly")[index]
    if index % 100 in (60, 70, 80):
        return {60: "hourly", 70: "stream", 80: "notebook"}[index % 100]
    return "weekly" if index % 7 == 3 else "daily"


def _words(team: str, facts: str, random: Random) -> dict[str, str]:
    """New names for the template's tables and columns."""
    dimension = random.choice(_DIMENSIONS)
    groups = random.sample(_GROUPS, 3)
    return {
        "default": team,
        "sales": facts,
        "returns": f"{facts}_reversed",
        "product": dimension,
        "product_id": f"{dimension}_id",
        "sale_id": f"{facts.rstrip('s')}_id",
        "amount": random.choice(_MEASURES),
        "category": groups[0],
        "region": groups[1],
        "segment": groups[2],
    }


def _query(name: str, words: Mapping[str, str], story: Story | None, random: Random) -> Query:
    family, _, variant = name.partition("/")
    variants = [variant or family]
    if story and story.other_variant:
        variants.append(story.other_variant)
    shown = {word: words.get(word, word) for word in ("sales", "returns", "product", "category", "region", "segment")}
    title = TITLES[family].format(store="store", **shown)
    return Query(
        title[0].upper() + title[1:],
        {each: template(f"{family}/{each}" if variant else family, words) for each in variants},
        large=random.uniform(60, 200) if story else math.exp(random.uniform(math.log(20), math.log(300))),
        small=story.small if story else 30.0 if family == "skewed" else random.uniform(1, 6),
        seconds=random.uniform(120, 300) if story else math.exp(random.uniform(math.log(15), math.log(600))),
    )


def runs_of_day(job: Job, day: int, midnight: datetime, seed: int) -> Iterator[Run]:
    """The runs of a job that start on this day of the history."""
    random = Random(f"{seed}/{job.index}/{day}")
    is_weekend = midnight.weekday() >= 5
    for started_at, offsets in _starts(job, midnight, is_weekend, random):
        yield Run(job, day, started_at, [(at, q, _scale(job, q, day, is_weekend, random)) for at, q in offsets])


def _starts(
    job: Job, midnight: datetime, is_weekend: bool, random: Random
) -> Iterator[tuple[datetime, list[tuple[float, Query]]]]:
    """Start of each application, with its queries and when they start in it, in seconds."""

    def at(hour: float, jitter: float) -> datetime:
        return midnight + timedelta(hours=hour, milliseconds=round(random.uniform(0, jitter) * 60_000))

    def one_after_the_other() -> list[tuple[float, Query]]:
        offsets, seconds = [], random.uniform(8, 20)
        for query in job.queries:
            offsets.append((seconds, query))
            seconds += query.seconds * 3 + random.uniform(1, 5)
        return offsets

    if job.schedule == "daily":
        yield at(job.hour, 12), one_after_the_other()
    elif job.schedule == "hourly":
        for hour in range(24):
            if not is_weekend or 7 <= hour < 21:
                yield at(hour, 6), one_after_the_other()
    elif job.schedule == "weekly":
        if midnight.weekday() == job.weekday:
            yield at(job.hour, 30), one_after_the_other()
    elif job.schedule == "stream":
        batches = [(hour * 3600 + random.uniform(30, 40), job.queries[0]) for hour in range(24)]
        yield at(0, 2), batches
    elif not is_weekend:
        seconds, offsets = random.uniform(20, 60), []
        for query in random.choices(job.queries, k=random.randrange(6, 17)):
            offsets.append((seconds, query))
            seconds += query.seconds * 3 + random.uniform(30, 600)
        yield at(8 + job.hour / 4, 60), offsets


def _scale(job: Job, query: Query, day: int, is_weekend: bool, random: Random) -> Scale:
    effect = job.effect(day)
    level = job.level(day, is_weekend) * effect.large * random.lognormvariate(0, 0.04)
    noise = random.lognormvariate(0, 0.06)
    standard = next(iter(query.templates.values()))
    chosen = query.templates[effect.variant or next(iter(query.templates))]
    # What failed at once is not stretched to the time that it would have taken
    stretched = standard if effect.variant == "failed" else chosen
    small = query.small * effect.small
    time = query.seconds * 1000 / stretched.duration_ms * level**0.85
    return Scale(
        large=query.large * level,
        small=small,
        time=time * effect.time * noise,
        small_time=min(time, 2 * small**0.5) * effect.time * noise,
        largest_share=effect.largest_share and effect.largest_share * random.uniform(0.95, 1.05),
        spilled_share=effect.spilled_share,
    )
