from borzoi.objectstore.locations import Location, Secrets
from borzoi.server.archive_location import archive_location
from borzoi.server.archive_settings import ArchiveObjectSection


def test_every_key_of_the_section_has_its_place() -> None:
    section = ArchiveObjectSection(
        service="s3",
        bucket="b",
        prefix="p",
        region="r",
        endpoint="http://e",
        access_key_id="a",
        secret_access_key="s",
        session_token="t",
        profile="q",
        payload_signing="always",
        server_side_encryption="aws:kms",
        kms_key_id="k",
    )
    assert archive_location(section) == Location(
        "s3", "b", "p", "http://e", "r", "q", "always", "aws:kms", "k", Secrets("a", "s", "t")
    )
    assert len(section.declared) == 12
