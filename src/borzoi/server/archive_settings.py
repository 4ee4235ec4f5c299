"""The configuration of the archive, which gets copies of sealed segments."""

from borzoi.server.declaring import Section, section, setting
from borzoi.server.kinds import BYTES, DURATION, FLAG, PATH, TEXT, choice, count


class CompatibilitySection(Section):
    path: str = setting(
        PATH, "compatibility", "kept for 0.8 files; borzoi writes nothing in old formats"
    )


class ArchiveObjectSection(Section):
    service: str = setting(
        choice("s3", "gcs", "azure"),
        "s3",
        "borzoi: Amazon S3 and compatible stores, Google Cloud Storage, or Azure",
    )
    bucket: str = setting(TEXT, "", "borzoi: the bucket, or the container")
    prefix: str = setting(TEXT, "archive", "borzoi: prefix of all keys")
    region: str = setting(TEXT, "", "borzoi: the region of the bucket; empty: AWS_REGION")
    endpoint: str = setting(
        TEXT, "", "borzoi: the address of a compatible store; empty: the provider's own"
    )
    access_key_id: str = setting(
        TEXT,
        "",
        "borzoi: empty: AWS_ACCESS_KEY_ID, web identity, container or instance metadata",
        secret=True,
    )
    secret_access_key: str = setting(TEXT, "", "borzoi: goes with access_key_id", secret=True)
    session_token: str = setting(TEXT, "", "borzoi: of temporary credentials", secret=True)
    profile: str = setting(TEXT, "", "borzoi: a profile of ~/.aws/credentials to take keys from")
    payload_signing: str = setting(
        choice("auto", "always", "never"),
        "auto",
        "borzoi: sign payloads; auto does not if TLS protects them",
    )
    server_side_encryption: str = setting(
        choice("", "AES256", "aws:kms"), "", "borzoi: ask the store to encrypt"
    )
    kms_key_id: str = setting(TEXT, "", "borzoi: the key for aws:kms; empty: the bucket's own")


class ArchiverSection(Section):
    enabled: bool = setting(FLAG, False, "borzoi: copy sealed segments to an archive")
    kind: str = setting(
        choice("disk", "object"), "disk", "borzoi: to system.backup.path, or to an object store"
    )
    name: str = setting(
        TEXT,
        "",
        "borzoi: the name of this server in the archive; empty: the cluster's or host's name",
    )
    interval: int = setting(DURATION, "1 m", "borzoi: how often to look for sealed segments")
    concurrency: int = setting(count(1, 16), 2, "borzoi: segments copied at a time")
    part_size: int = setting(BYTES, "8 MiB", "borzoi: parts of an upload; 5 MiB to 512 MiB")
    verify: str = setting(
        choice("none", "size", "checksum"), "size", "borzoi: how a new copy is verified"
    )
    include_state: bool = setting(FLAG, True, "borzoi: copy the metadata as well")
    state_keep: int = setting(count(1, 10_000), 24, "borzoi: copies of the metadata that are kept")
    object: ArchiveObjectSection = section(ArchiveObjectSection)


class BackupSection(Section):
    path: str = setting(PATH, "backup", "where archives of the kind disk are kept")
    compatibility: CompatibilitySection = section(CompatibilitySection)
    archiver: ArchiverSection = section(ArchiverSection)
