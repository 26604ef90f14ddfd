"""Twenty clients of a Spark Connect server, each with a query that ends and one that does not; prints who they are."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pyspark.sql.connect.session import SparkSession

CLIENTS = 20
ready = Barrier(CLIENTS)


def run(number: int) -> None:
    user = f"user{number}"
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{sys.argv[1]}/;user_id={user}").create()
    spark.addTag(f"tag{number}")
    said = {"client": number, "user": user, "session": spark.session_id, "tags": [f"tag{number}"]}
    sys.stdout.write(f"{json.dumps(said)}\n")  # at once, unlike `print`
    sys.stdout.flush()
    ready.wait()
    spark.sql(f"SELECT id, count(*) FROM range(9) AS client{number} GROUP BY id").collect()
    spark.sql(f"SELECT java_method('java.lang.Thread', 'sleep', 6000000L) FROM range(1) AS client{number}").collect()


with ThreadPoolExecutor(CLIENTS) as pool:
    list(pool.map(run, range(CLIENTS)))
