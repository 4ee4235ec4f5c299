"""Which log a new view starts with: a pure function of the DoViewChanges received (E1-E5)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from borzoi.consensus.frames import is_blank
from borzoi.consensus.messages import Prepare


class Claim(NamedTuple):
    """What one replica says about its log; slot i of headers and bitsets is op - i."""

    replica: int
    log_view: int
    op: int
    commit: int
    headers: tuple[Prepare, ...]
    nacks: int
    presents: int


class Merged(NamedTuple):
    """The decided suffix, ascending from ``commit``."""

    commit: int
    headers: tuple[Prepare, ...]


class Undecided(NamedTuple):
    """More claims are needed to decide this op; never guess."""

    op: int
    reason: str


def merge(claims: Sequence[Claim], *, nack_quorum: int, pipeline_max: int) -> Merged | Undecided:
    """Decide the log of a view from the claims of at least a view-change quorum."""
    canonical_view = max(claim.log_view for claim in claims)
    canonical = [claim for claim in claims if claim.log_view == canonical_view]
    commit = commit_of(claims, pipeline_max)
    head = max(commit, max(claim.op for claim in canonical))
    known = _canonical_headers(canonical, commit, head)
    if isinstance(known, Undecided):
        return known
    _fill_by_chain(known, claims, commit, head)
    chosen: list[Prepare] = []
    for op in range(commit, head + 1):
        header = known.get(op)
        if op == commit:
            header = header or _committed_header(claims, op)
            if header is None:
                return Undecided(op, "no claim has the header of the committed op")
            chosen.append(header)
            continue
        if _nacks(claims, op, header, canonical_view) >= nack_quorum:
            break
        if header is None or _copies(claims, op, header) == 0:
            return Undecided(op, "header unknown" if header is None else "no readable copy")
        chosen.append(header)
    return _chained(commit, chosen)


def commit_of(claims: Sequence[Claim], pipeline_max: int) -> int:
    """Step 2. The lowest op of a window is no evidence: windows begin where a sender could."""
    return max(
        max(
            claim.commit,
            claim.op - pipeline_max,
            0 if is_blank(claim.headers[0]) else claim.headers[0].commit,
        )
        for claim in claims
    )


def _header_of(claim: Claim, op: int) -> Prepare | None:
    slot = claim.op - op
    if not 0 <= slot < len(claim.headers) or is_blank(claim.headers[slot]):
        return None
    return claim.headers[slot]


def _canonical_headers(
    canonical: Sequence[Claim], commit: int, head: int
) -> dict[int, Prepare] | Undecided:
    """What canonical senders say; they never disagree unless something is broken."""
    known: dict[int, Prepare] = {}
    for op in range(commit, head + 1):
        for claim in canonical:
            header = _header_of(claim, op)
            if header is None:
                continue
            if op in known and known[op].checksum != header.checksum:
                return Undecided(op, "canonical senders disagree")
            known[op] = header
    return known


def _fill_by_chain(
    known: dict[int, Prepare], claims: Sequence[Claim], commit: int, head: int
) -> None:
    """Where canonical senders are blank, the header above still names its parent by checksum.

    A sender of a lower log_view that holds exactly that header holds the canonical one.
    """
    for op in range(head - 1, commit - 1, -1):
        above = known.get(op + 1)
        if op in known or above is None:
            continue
        for claim in claims:
            header = _header_of(claim, op)
            if header is not None and header.checksum == above.parent:
                known[op] = header
                break


def _committed_header(claims: Sequence[Claim], op: int) -> Prepare | None:
    """From a lower log_view too, when its sender reports the op committed; the chain checks it."""
    for claim in claims:
        header = _header_of(claim, op)
        if header is not None and claim.commit >= op:
            return header
    return None


def _nacks(
    claims: Sequence[Claim],
    op: int,
    header: Prepare | None,
    canonical_view: int,
) -> int:
    """Senders that prove they never acknowledged the canonical entry at ``op``."""
    count = 0
    for claim in claims:
        if claim.op < op or claim.nacks >> (claim.op - op) & 1:
            count += 1
            continue
        held = _header_of(claim, op)
        if claim.log_view == canonical_view or held is None:
            continue
        # A blank of the canonical senders is never evidence (M1).
        if header is not None and held.checksum != header.checksum:
            count += 1
    return count


def _copies(claims: Sequence[Claim], op: int, header: Prepare) -> int:
    count = 0
    for claim in claims:
        held = _header_of(claim, op)
        if held is not None and held.checksum == header.checksum:
            count += claim.presents >> (claim.op - op) & 1
    return count


def _chained(commit: int, chosen: list[Prepare]) -> Merged | Undecided:
    """Step 5."""
    for below, above in pairwise(chosen):
        if above.parent != below.checksum:
            return Undecided(above.op, "the chosen headers do not chain")
    return Merged(commit, tuple(chosen))
