"""What the workspace's own pages say about it."""

import re
from pathlib import Path

from octavo_tools.workspace import find_root, read_workspace

HOME = find_root(Path(__file__))


def test_the_readme_names_every_package():
    packages = {slug for slug, member in read_workspace(HOME).members.items() if member.is_package}
    named = re.findall(r"^\| \[([a-z0-9-]+)\]\(packages/\1\) \|", (HOME / "README.md").read_text(), flags=re.MULTILINE)
    assert sorted(named) == sorted(packages)


def test_the_pages_link_to_what_is_there():
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", (HOME / page).read_text()):
            assert (HOME / target).exists(), f"{page} links to {target}"


def test_scripts_can_be_run():
    for script in [HOME / ".ci" / "run", *(HOME / "ci").glob("*.sh")]:
        assert script.stat().st_mode & 0o111, script
        assert "set -euo pipefail" in script.read_text(), script
