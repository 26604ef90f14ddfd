"""Twenty clients of a Spark Connect server at once; prints who ran what in which session, a JSON object each.

One interrupts a query of its own by a tag, and three fail before their first response: in a task, in planning, and in
analysis.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pyspark.sql.connect.session import SparkSession

CLIENTS = 20
INTERRUPTED, FAILING, NOT_PLANNED, NOT_ANALYZED = 7, 11, 13, 15
USERS = ("ana", "ana_maria", "a_Session_b", "x_Tag_y")
ready = Barrier(CLIENTS)
sessions: list[SparkSession] = []
"""All, until the end: PySpark's client closes a session that is collected, and waits there for a lock of gRPC that the
thread in which the garbage is collected may hold itself."""


def run(number: int) -> dict[str, object]:
    user = f"{USERS[number % len(USERS)]}{number}"
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{sys.argv[1]}/;user_id={user}").create()
    sessions.append(spark)
    tags = ["nightly", f"client_Tag_{number}"] if number % 2 else []
    for tag in tags:
        spark.addTag(tag)
    ready.wait()
    outcome = "succeeded"
    try:
        if number == INTERRUPTED:
            # Its task says that it runs and then sleeps; the session without tags asks for that, and interrupts it
            started = f"java_method('java.lang.System', 'setProperty', 'client{number}', 'runs')"
            query = (
                f"SELECT {started}, java_method('java.lang.Thread', 'sleep', 6000000L) FROM range(1) AS client{number}"
            )
            spark.clearTags()
            with ThreadPoolExecutor(1) as other:
                asked = other.submit(tagged, spark, tags, query)
                runs = f"java_method('java.lang.System', 'getProperty', 'client{number}')"
                while spark.sql(f"SELECT {runs} FROM range(1) client{number}").collect()[0][0] != "runs":
                    time.sleep(0.1)
                spark.interruptTag(f"client_Tag_{number}")
                asked.result()
        elif number == FAILING:
            spark.sql(f"SELECT raise_error('on purpose') FROM range(9) AS client{number}").collect()
        elif number == NOT_PLANNED:
            spark.conf.set("spark.sql.crossJoin.enabled", "false")
            spark.sql(f"SELECT a.id, count(*) FROM range(9) a JOIN range(9) client{number} GROUP BY a.id").collect()
        elif number == NOT_ANALYZED:
            spark.sql(f"SELECT nothing FROM range(9) AS client{number}").collect()
        else:
            for part in range(3):
                spark.sql(
                    f"SELECT a.id, count(*) FROM range(50) a JOIN range({part + 2}) client{number} USING (id)"
                    " GROUP BY a.id"
                ).collect()
    except Exception:
        outcome = "not succeeded"
    return {"user": user, "session": spark.session_id, "tags": sorted(tags), "client": number, "outcome": outcome}


def tagged(spark: SparkSession, tags: list[str], query: str) -> object:
    for tag in tags:  # a thread has tags of its own
        spark.addTag(tag)
    return spark.sql(query).collect()


with ThreadPoolExecutor(CLIENTS) as pool:
    for said in pool.map(run, range(CLIENTS)):
        print(json.dumps(said))
for spark in sessions:
    spark.stop()
