#!/usr/bin/env python3
"""`kubectl-grove` as krew installs it: Grove's code lies beside this file, the packages it needs do not.

They are used where the Python that runs this has them, or else from the one environment that is looked for.
Where there is none, the two commands that make it are told; nothing is downloaded unasked.
"""

import importlib.util
import os
import sys
from pathlib import Path

#: What Grove's commands import; `dependencies` in pyproject.toml.
NEEDED = ("aiohttp", "cryptography", "msgspec", "prometheus_client", "yaml", "typer", "rich")
OLDEST = (3, 11)
#: krew makes a link to this file, so that the folder is where the link leads.
HERE = Path(__file__).resolve().parent
_TRIED = "KUBECTL_GROVE_ENVIRONMENT_TRIED"


def main() -> int:
    """Become `grove`, in this Python or in that of the environment."""
    tried = os.environ.pop(_TRIED, None)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if sys.version_info < OLDEST or missing:
        python = environment() / "bin" / "python"
        if tried is None and python.exists():
            os.environ[_TRIED] = "yes"
            os.execv(str(python), [str(python), __file__, *sys.argv[1:]])
        print(lacking(missing), file=sys.stderr)
        return 1
    sys.path.insert(0, str(HERE / "lib"))
    from grove.cli.main import main as grove

    return grove()


def environment() -> Path:
    """Where the packages are looked for if this Python lacks them; each version of Grove has its own."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "kubectl-grove" / (HERE / "VERSION").read_text().strip()


def lacking(missing: "list[str]") -> str:
    """What to do, in a sentence and two commands."""
    what = f"the packages {', '.join(missing)}" if missing else f"Python {OLDEST[0]}.{OLDEST[1]} or newer"
    pip = environment() / "bin" / "pip"
    return (
        f"kubectl-grove: {sys.executable} lacks {what}; make an environment that has everything:\n"
        f"  python3 -m venv {environment()}\n"
        f"  {pip} install --require-hashes -r {HERE / 'requirements.lock'}"
    )


if __name__ == "__main__":
    sys.exit(main())
