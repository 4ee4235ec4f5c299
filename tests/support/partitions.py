"""A partition on a medium, with ids and a key that are the same in every run."""

import random
from pathlib import Path

from borzoi.model.namespace import Namespace
from borzoi.partitions.partition import Partition
from borzoi.records.fresh_ids import FreshIds
from borzoi.security.encryption import Cipher
from borzoi.storage.log import open_log
from borzoi.storage.media import Medium
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings
from borzoi.storage.syncing import Syncer

DIRECTORY = Path("/data/0")
NEW_IDS = FreshIds(random.Random(1).randbytes)
CIPHER = Cipher("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")


def open_partition(
    medium: Medium,
    level: Acknowledge = Acknowledge.WRITTEN,
    *,
    syncer: Syncer | None = None,
    required: int = 1,
    **options: object,
) -> Partition:
    return Partition(
        Namespace(0, 0, 0),
        open_log(
            DIRECTORY,
            medium,
            segment=SegmentSettings(size=512),
            partition=PartitionSettings(acknowledge=level, messages_required_to_save=required),
            syncer=syncer,
        ),
        open_offsets(DIRECTORY, OffsetWriter(medium)),
        new_ids=NEW_IDS,
        **options,  # type: ignore[arg-type]
    )
