"""What `spark-submit` runs: a pipeline file in the session that spark-submit prepared.

spark-submit [OPTIONS] .../borzoi/spark/submitted.py orders.toml
"""

import sys
from pathlib import Path

from borzoi.spark.commands import load, run_to_end

if __name__ == "__main__":
    sys.exit(run_to_end(load(Path(sys.argv[1])), as_json=True))
