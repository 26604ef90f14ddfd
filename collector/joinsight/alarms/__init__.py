"""Certain alarms: queries whose times or failures changed, with a stated rate of false alarms.

::

    executions of an hour ──► points of each series (`points`)
        │
        └──► evidence against "nothing changed" (`detector`) ──► alarms over all series of a day (`watch`)

docs/regressions.md#certain-regressions has the rules and what they promise.
"""
