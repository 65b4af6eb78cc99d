"""A paper as a package publishes it, and a program with its command."""

import sys
import textwrap

import pytest
from samples import breaks, claim, fails, holds, paper_of

from octavo_shared.claims import Scale


@pytest.fixture
def paper():
    return paper_of(
        claim("good", holds, Scale.EXACT),
        claim("bad", fails),
        claim("far", holds, Scale.GPU),
        claim("broken", breaks),
    )


@pytest.fixture
def command(tmp_path):
    """Writes a program whose paper has this demonstration and this check; gives the words that start it."""

    def write(check="return Finding('', '1', True)", demo="yield Finding('what', '1', True)"):
        program = tmp_path / "program.py"
        program.write_text(
            "import signal\n"
            "import typer\n"
            "from octavo_shared.claims import Claim, Finding, Paper, Scale\n"
            "from octavo_shared.cli import add_paper_commands\n"
            "CALLS = []\n"
            f"def check(setting):\n{textwrap.indent(textwrap.dedent(check), '    ')}\n"
            f"def demo(setting):\n{textwrap.indent(textwrap.dedent(demo), '    ')}\n"
            "def claim(name):\n"
            "    return Claim(name, f'About {name}.', 'Table 1', '1', '=', Scale.DESK, 1.0, check)\n"
            "PAPER = Paper('sample', 'On sample', 'https://example.org', 'sums', 'numpy',\n"
            "              (claim('first'), claim('second'), claim('third')), demo)\n"
            "app = typer.Typer()\n"
            "add_paper_commands(app, PAPER)\n"
            "app()\n"
        )
        return [sys.executable, str(program)]

    return write
