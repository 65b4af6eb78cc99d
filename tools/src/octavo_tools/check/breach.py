"""A breach of the contract that every package keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from octavo_tools.workspace import Member


@dataclass(frozen=True)
class Breach:
    """One way in which a package departs from the contract.

    Attributes:
        slug: The package.
        rule: The rule's name: `metadata`, `layout`.
        problem: What is wrong.
        remedy: What to do about it.
    """

    slug: str
    rule: str
    problem: str
    remedy: str


Rule = Callable[[Member], Iterator[Breach]]
"""Looks at one member and yields what is wrong with it."""
