from borzoi.consensus.checkpoint import (
    Artifact,
    ArtifactKind,
    Manifest,
    decode_manifest,
    encode_manifest,
    manifest_checksum,
    manifest_of,
)
from borzoi.consensus.frames import checksum, pack_header, root

HEADER = root(bytes(16), 0)
ARTIFACTS = (Artifact(ArtifactKind.SNAPSHOT, 5, b"state"), Artifact(ArtifactKind.OFFSETS, 9, b""))


def test_a_manifest_names_length_and_checksum_of_every_artifact():
    manifest = manifest_of(HEADER, ARTIFACTS)
    assert manifest.entries[0] == (1, 5, 5, checksum(b"state"))
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_the_layout_of_a_manifest_is_fixed():
    raw = encode_manifest(manifest_of(HEADER, ARTIFACTS[:1]))
    assert raw[:256] == pack_header(HEADER)
    assert raw[256:260] == b"\1\0\0\0"
    assert raw[260] == 1
    assert raw[261:269] == raw[269:277] == (5).to_bytes(8, "little")
    assert len(raw) == 293


def test_another_content_gives_another_checksum():
    other = (ARTIFACTS[0]._replace(content=b"State"), ARTIFACTS[1])
    assert manifest_checksum(manifest_of(HEADER, ARTIFACTS)) != manifest_checksum(
        manifest_of(HEADER, other)
    )


def test_what_is_no_manifest_is_refused():
    raw = encode_manifest(Manifest(HEADER, ()))
    assert decode_manifest(raw) is not None
    assert decode_manifest(raw[:-1]) is None
    assert decode_manifest(raw + b"x") is None
    assert decode_manifest(raw[:60] + b"\x09" + raw[61:]) is None
    assert decode_manifest(raw[:256] + b"\xff\xff\xff\xff") is None
    assert decode_manifest(raw[:200] + b"\1" + raw[201:]) is None
