"""Numbers computed for the specification with an independent discrete-event simulator: c = 4, r = 1, n workers."""

COLUMNS = (
    ("ascending", False),
    ("shift", False),
    ("ascending", True),
    ("descending", True),
    ("spt", True),
    ("symmetric_shift", True),
)
"""Schedule and whether the mask is causal, for each column of `MAKESPANS`."""

MAKESPANS = {
    (4, 1): (23, 20, 23, 20, 20, 25),
    (4, 2): (43, 40, 43, 28, 35, 25),
    (8, 2): (87, 80, 87, 52, 65, 45),
    (8, 4): (167, 160, 167, 97, 110, 90),
    (16, 2): (175, 160, 175, 100, 130, 85),
    (16, 4): (335, 320, 335, 185, 215, 170),
}
"""By key tiles n and heads m."""

OTHER_COSTS = [
    # n, heads, c, r, schedule, causal, makespan
    (8, 4, 3, 1, "ascending", False, 135),
    (8, 4, 3, 1, "shift", False, 128),
    (8, 4, 3, 1, "ascending", True, 135),
    (8, 4, 3, 1, "descending", True, 79),
    (8, 4, 3, 1, "symmetric_shift", True, 72),
    (4, 4, 1, 2, "descending", True, 39),
    (8, 4, 1, 2, "descending", True, 75),
    (8, 4, 1, 2, "symmetric_shift", True, 54),
]

OTHER_SHAPES = [
    # n, M, heads, σ, schedule, causal, makespan
    (8, 13, 3, 1, "ascending", False, 202),
    (8, 13, 3, 1, "shift", False, 195),
    (8, None, 4, 2, "symmetric_shift", True, 180),
    (6, None, 2, 3, "symmetric_shift", True, 105),
]

LATENCY = [
    # n, heads, ℓ, schedule, causal, makespan
    (8, 4, 0, "ascending", False, 167),
    (8, 4, 4, "ascending", False, 195),
    (8, 4, 5, "ascending", False, 202),
    (8, 4, 8, "ascending", False, 223),
    (8, 4, 0, "shift", False, 160),
    (8, 4, 4, "shift", False, 160),
    (8, 4, 5, "shift", False, 188),
    (8, 4, 8, "shift", False, 272),
    (8, 4, 0, "symmetric_shift", True, 90),
    (8, 4, 4, "symmetric_shift", True, 90),
    (8, 4, 5, "symmetric_shift", True, 101),
    (8, 4, 8, "symmetric_shift", True, 134),
    (16, 4, 8, "ascending", False, 455),
    (16, 4, 8, "shift", False, 560),
]

SYMMETRIC_8 = (
    ((0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 0), (0, 1), (0, 2), (7, 7)),
    ((1, 4), (1, 5), (1, 6), (1, 7), (1, 3), (1, 1), (1, 2), (6, 7), (6, 6)),
    ((2, 5), (2, 6), (2, 7), (2, 3), (2, 4), (2, 2), (5, 7), (5, 6), (5, 5)),
    ((3, 6), (3, 7), (3, 3), (3, 4), (3, 5), (4, 7), (4, 6), (4, 5), (4, 4)),
)
"""n = 8, σ = 1, one head on 4 workers: (key tile, query tile) by worker."""

SYMMETRIC_8_ORDER = (
    (0,),
    (1, 0),
    (2, 1, 0),
    (0, 3, 2, 1),
    (1, 0, 3, 2, 4),
    (2, 1, 0, 3, 4, 5),
    (3, 2, 1, 0, 4, 5, 6),
    (3, 2, 1, 0, 4, 5, 6, 7),
)

SYMMETRIC_4_SIGMA_2 = (
    ((0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 0), (0, 1), (3, 7), (3, 6)),
    ((1, 3), (1, 4), (1, 5), (1, 6), (1, 7), (1, 2), (2, 7), (2, 6), (2, 5), (2, 4)),
)
SYMMETRIC_4_SIGMA_2_ORDER = ((0,), (0,), (0, 1), (1, 0), (1, 0, 2), (1, 0, 2), (1, 0, 2, 3), (1, 0, 2, 3))

SHIFT_3_5 = ((0, 1, 2, 3, 4), (1, 2, 3, 4, 0), (2, 3, 4, 0, 1))
"""n = 3, M = 5: query tiles by key tile."""
SHIFT_3_5_ORDER = ((0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 1, 0), (2, 1, 0))
