"""DASH: attention with gradients that are the same bits in every run, and the schedules that make it fast.

Paper: https://arxiv.org/abs/2601.21824 (ICLR 2026).
"""

from octavo_dash.attention import attention, attention_varlen
from octavo_dash.build import make_schedule
from octavo_dash.closed_forms import closed_form, lower_bound
from octavo_dash.determinism import Repeatability, check_determinism
from octavo_dash.flash_attention import flash_attn_func, flash_attn_varlen_func
from octavo_dash.huggingface import register
from octavo_dash.longest_path import Costs
from octavo_dash.planner import best, candidates
from octavo_dash.problem import Problem
from octavo_dash.schedule import Schedule
from octavo_dash.schedules import RULES, ScheduleError
from octavo_dash.sdpa import scaled_dot_product_attention
from octavo_dash.simulate import Trace, simulate

__all__ = [
    "RULES",
    "Costs",
    "Problem",
    "Repeatability",
    "Schedule",
    "ScheduleError",
    "Trace",
    "attention",
    "attention_varlen",
    "best",
    "candidates",
    "check_determinism",
    "closed_form",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "lower_bound",
    "make_schedule",
    "register",
    "scaled_dot_product_attention",
    "simulate",
]
