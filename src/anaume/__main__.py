"""`python -m anaume` is `anaume`."""

import sys

from anaume.cli import main

sys.exit(main())
