"""A GPU machine may hold torch, Triton, NumPy, pytest, typer and rich alone: enough to import and to measure."""

import subprocess
import sys

HIDE = """
import sys
for name in ("jaxtyping", "jinja2", "matplotlib", "sklearn", "beartype"):
    sys.modules[name] = None  # importing it raises ImportError
"""


def run(code):
    return subprocess.run([sys.executable, "-c", HIDE + code], capture_output=True, text=True, check=True).stdout


def test_modules_import_and_claims_are_measured():
    output = run(
        """
from io import StringIO
from rich.console import Console
import octavo_shared.arrays, octavo_shared.cli, octavo_shared.files, octavo_shared.timing
from octavo_shared.claims import Claim, Finding, Paper, Scale, Setting
from octavo_shared.display import run_claims
claim = Claim("one", "One is one.", "Table 1", "1", "=", Scale.EXACT, 1.0, lambda setting: Finding("", "1", 1 == 1))
paper = Paper("sample", "On sample", "https://example.org", "sums", "numpy", (claim,), lambda setting: iter(()))
[(_, [outcome])] = run_claims([(paper, paper.claims)], Setting(), Console(file=StringIO()))
print(outcome.status)
"""
    )
    assert output.strip() == "holds"


def test_annotations_are_the_array_type_alone():
    output = run(
        """
import numpy as np
from octavo_shared import arrays
print(all(getattr(arrays, name)[np.ndarray, "rows columns"] is np.ndarray for name in arrays.__all__))
"""
    )
    assert output.strip() == "True"


def test_without_torch_auto_is_the_cpu():
    code = "sys.modules['torch'] = None\nfrom octavo_shared.cli import resolve_device\nprint(resolve_device('auto'))"
    assert run(code).strip() == "cpu"


def test_torch_is_not_imported_with_the_options():
    assert run("import octavo_shared.cli\nprint('torch' in sys.modules)").strip() == "False"


def test_annotations_are_jaxtyping_s_where_it_is_installed():
    import jaxtyping

    from octavo_shared import arrays

    assert all(getattr(arrays, name) is getattr(jaxtyping, name) for name in arrays.__all__)
