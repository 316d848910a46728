"""Put the checkout on the virtual environment's path and write its `grove` command.

An editable install would fetch a build backend; a path file and a six-line script do the same offline.
"""

import stat
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LAUNCHER = """#!{python}
import sys

from grove.cli.main import main

sys.exit(main())
"""


def link() -> None:
    """Write the path file and the launcher into the running interpreter's environment."""
    site = Path(sysconfig.get_path("purelib"))
    (site / "grove.pth").write_text(f"{ROOT / 'src'}\n")
    launcher = Path(sysconfig.get_path("scripts")) / "grove"
    launcher.write_text(LAUNCHER.format(python=sys.executable))
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


if __name__ == "__main__":
    link()
