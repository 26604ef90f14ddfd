"""A JVM that began without the jar: what Spark says, and what attach() does; the names of four contexts."""

import sys

from session import URL, builder, run

import joinsight
from joinsight.driver.attach import PLUGIN

not_attached, refused, attached, by_settings = sys.argv[1:]


def settings(name):
    made = builder(name).config("spark.jars", str(joinsight.listener_jar()))
    return made.config("spark.plugins", PLUGIN).config("spark.joinsight.url", URL)


run(builder(not_attached))
try:
    settings(refused).getOrCreate()
except Exception as error:
    print("ClassNotFoundException: " + PLUGIN in str(error))
run(joinsight.attach(settings(attached), url=URL))
run(settings(by_settings))
