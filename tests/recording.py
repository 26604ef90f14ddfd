"""What the recorders of documents share: the tables of a shop, a session, and texts without details of this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AQE = "spark.sql.adaptive"
SHOP = {
    "store": (
        "CAST(id AS INT) AS store_id",
        "element_at(array('north', 'east', 'south'), CAST(id % 3 AS INT) + 1) AS region",
    ),
    "product": ("CAST(id AS INT) AS product_id", "concat('Product ', id) AS name", "id % 25 AS category"),
    "customer": (
        "CAST(id AS INT) AS customer_id",
        "md5(CAST(id AS STRING)) AS email",
        "CASE WHEN id = 0 THEN 'walk-in' WHEN id % 500 = 7 THEN 'gold' ELSE 'regular' END AS segment",
    ),
    "sales": (
        "id AS sale_id",
        "CAST(pmod(xxhash64(id, 'store'), 40) AS INT) AS store_id",
        "CAST(pmod(xxhash64(id, 'product'), 5000) AS INT) AS product_id",
        "CAST(IF(id % 10 < 3, 0, pmod(xxhash64(id, 'customer'), 20000)) AS INT) AS customer_id",
        "CAST(1 + pmod(xxhash64(id, 'quantity'), 5) AS INT) AS quantity",
        "pmod(xxhash64(id, 'amount'), 50000) / 100D AS amount",
        "CAST(id DIV 13334 AS INT) AS day",
    ),
}
"""The columns of tables; customer 0 has 30 % of all sales."""
ROWS = {"store": 40, "product": 5_000, "customer": 20_000, "sales": 400_000}


def session(folder: str, warehouse: str, **settings: str) -> SparkSession:
    """A session with a folder for its tables and for what it cannot deliver."""
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.joinsight.spool": f"{folder}/spool",
        "spark.sql.warehouse.dir": f"{folder}/{warehouse}",
        "spark.sql.catalogImplementation": "in-memory",
        # Several tasks read a shuffle, as they do where there is more data
        f"{AQE}.advisoryPartitionSizeInBytes": "512k",
        f"{AQE}.coalescePartitions.parallelismFirst": "false",
        f"{AQE}.coalescePartitions.minPartitionSize": "1k",
        "spark.sql.files.maxPartitionBytes": "1m",
        "spark.sql.files.openCostInBytes": "1",
    }
    return SparkSession.builder.config(map=options | settings).getOrCreate()


def last_documents(sink: Sink) -> list[dict[str, Any]]:
    """The last document of each execution."""
    return [*{each["execution_id"]: each for each in sink.taken() if each["kind"] == "execution"}.values()]


def as_text(document: dict[str, Any], folder: str, script: Path, lake: str) -> str:
    """A document as JSON, with other names for folders and for the script's lines; none of this machine are left."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    text = re.sub(rf"file:/*{re.escape(folder)}/\w+", lake, text)
    text = re.sub(rf"(\w+) at [^\"]*{script.name}:\d+", r"\1 at job.py:42", text)
    for mine in (folder, str(Path.cwd()), str(Path.home())):
        assert mine not in text, (
            f"{mine} is in {document['description']}: {text[max(0, text.index(mine) - 200) :][:400]}"
        )
    return text
