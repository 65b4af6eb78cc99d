"""The compiled module, where there is one, and the sources that it is built from."""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType


@cache
def native_module() -> ModuleType | None:
    """The compiled module, or `None` where the package was installed without a C++ compiler; a warning says so once."""
    try:
        from octavo_dash import _native
    except ImportError:
        logging.getLogger("octavo_dash").warning(
            "octavo_dash was installed without its compiled module; it uses the slower PyTorch and Python paths. "
            "Install a C++17 compiler and reinstall the package for the fast ones."
        )
        return None
    return _native
