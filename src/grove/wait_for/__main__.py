"""`python -m grove.wait_for`: the entry point of the image `grove-initc`."""

import sys

from grove.wait_for.main import main

sys.exit(main(sys.argv[1:]))
