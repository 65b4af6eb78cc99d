"""The README's examples run as printed, and its commands exist."""

import re
from pathlib import Path

from mktestdocs import check_md_file
from typer.testing import CliRunner

from octavo_dash.cli import app

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run_one_after_another():
    check_md_file(README, memory=True)


def test_every_command_line_names_a_command_with_known_options():
    lines = re.findall(r"^octavo-dash (\S+)(.*?)(?:#.*)?$", README.read_text(encoding="utf-8"), flags=re.M)
    assert len(lines) >= 9
    for command, options in lines:
        described = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"])
        assert described.exit_code == 0, command
        for option in re.findall(r"--[a-z-]+", options):
            assert option in described.output, (command, option)
