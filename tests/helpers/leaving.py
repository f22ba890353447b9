"""One of two hosts that have agreed to end, of which the first one still saves for some seconds.

python tests/helpers/leaving.py PLACE FOLDER SECONDS INDEX
"""

from __future__ import annotations

import sys
import time

from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.watch.ending import end_now

CODES = (3, 143)  # Of a run that has collapsed, and of one that was told to end.

if __name__ == "__main__":
    place, folder, seconds, index = sys.argv[1:]
    hosts = Hosts(place, 2, int(index))
    hosts.join("alike", folder)
    time.sleep(float(seconds) if hosts.first else 0.0)
    hosts.leave(agreed=True)
    time.sleep(float(seconds) if hosts.first else 0.0)  # Its trackers end, while the other one is gone.
    end_now(CODES[hosts.index])
