"""Makes `python -m octavo_tools` the command `octavo`, for a checkout that is not installed."""

from octavo_tools.cli import app

if __name__ == "__main__":
    app(prog_name="octavo")
