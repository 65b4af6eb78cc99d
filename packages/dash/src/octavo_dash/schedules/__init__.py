"""The schedules: one rule a file, each saying of one head in which order its tiles are worked on and summed."""

from octavo_dash.schedules.ascending import Ascending
from octavo_dash.schedules.base import Cohort, Rule, ScheduleError, UnitTasks, UnknownScheduleError
from octavo_dash.schedules.descending import Descending
from octavo_dash.schedules.shift import Shift
from octavo_dash.schedules.spt import ShortestFirst
from octavo_dash.schedules.symmetric_shift import SymmetricShift

RULES: dict[str, Rule] = {
    rule.name: rule for rule in (Ascending(), Descending(), Shift(), SymmetricShift(), ShortestFirst())
}
"""Every schedule by its name."""

__all__ = ["RULES", "Cohort", "Rule", "ScheduleError", "UnitTasks", "UnknownScheduleError"]
