"""Runs one benchmark file in a process of its own: `python -m octavo_tools.benchmark_process FILE DEVICE RESULTS`.

The results are JSON lines: first the machine, then each comparison as soon as it is there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from octavo_shared.timing import Comparison


def load(path: Path) -> Callable[[str], Iterator[Comparison]]:
    """Returns the function `comparisons` of a benchmark file.

    Raises:
        AttributeError: The file defines none.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} cannot be imported: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "comparisons", None)):
        raise AttributeError(f"{path.name} defines no function comparisons(device)")
    return module.comparisons  # type: ignore[no-any-return]


def machine(device: str) -> str:
    """Describes what the timings hold for: the GPU, or the processor and the number of cores."""
    if device.startswith("cuda"):
        torch = __import__("torch")
        return str(torch.cuda.get_device_name(torch.device(device)))
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {count} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main(file: str, device: str, results: str) -> None:
    """Runs the file's comparisons and writes each to `results` when it is there."""
    with Path(results).open("a", encoding="utf-8") as out:
        print(json.dumps({"machine": machine(device)}), file=out, flush=True)
        for comparison in load(Path(file))(device):
            record = asdict(comparison) | {"speedup": comparison.speedup}
            print(json.dumps(record), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
