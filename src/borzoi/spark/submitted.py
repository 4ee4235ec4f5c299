"""What `spark-submit` runs: a pipeline file in the session that spark-submit prepared.

spark-submit [OPTIONS] .../borzoi/spark/submitted.py orders.toml
"""

import sys
from pathlib import Path

from borzoi.spark.commands import load, reports_errors, run_to_end


@reports_errors
def main(file: str) -> None:
    sys.exit(run_to_end(load(Path(file)), as_json=True))


if __name__ == "__main__":
    main(sys.argv[1])
