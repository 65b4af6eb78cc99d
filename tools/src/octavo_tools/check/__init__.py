"""The contract that every package keeps, as rules that say what is wrong and what to do about it."""

from octavo_tools.check.breach import Breach
from octavo_tools.check.contract import check_workspace

__all__ = ["Breach", "check_workspace"]
