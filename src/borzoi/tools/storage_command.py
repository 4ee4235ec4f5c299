"""``borzoi storage``: is an object store fit for borzoi?"""

import asyncio
import json
import sys

import click

from borzoi.model.errors import InvalidConfiguration
from borzoi.objectstore.errors import ObjectStoreError, PermissionDenied
from borzoi.objectstore.locations import open_store, parse_location
from borzoi.objectstore.probing import ProbeResult, probe
from borzoi.objectstore.retries import RetryingStore
from borzoi.tools.terminal import COULD_NOT, FOUND, report_errors

USABLE = "this store can be used"
UNUSABLE = "this store cannot be used: what is marked above is missing"


@click.group()
def storage() -> None:
    """Examine object stores."""


@storage.command("probe")
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
@report_errors
def probe_command(url: str, as_json: bool) -> None:
    """Ask the store at URL for everything borzoi relies on.

    URL is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY;
    ?endpoint=http://HOST:PORT names a compatible store, ?region= and ?profile= are understood as
    well. Credentials come from the environment (AWS_ACCESS_KEY_ID and so on), the container or the
    instance. A small object is written below probe/ and removed again. The exit status is 1 when
    the store lacks something, and 2 when it could not be asked.
    """
    location = parse_location(url)
    try:
        verdict = asyncio.run(_probed(url))
    except PermissionDenied as fault:
        raise InvalidConfiguration(f"{location} refuses these credentials: {fault}") from fault
    except ObjectStoreError as fault:
        click.echo(f"error: {location} could not be asked: {fault}", err=True)
        sys.exit(COULD_NOT)
    _show(verdict, as_json)
    sys.exit(0 if verdict.accepted else FOUND)


async def _probed(url: str) -> ProbeResult:
    store = RetryingStore(open_store(parse_location(url)))
    try:
        return await probe(store)
    finally:
        await store.close()


def _show(verdict: ProbeResult, as_json: bool) -> None:
    if as_json:
        rows = [
            {"property": one.property, "holds": one.holds, "detail": one.detail}
            for one in verdict.findings
        ]
        click.echo(json.dumps({"accepted": verdict.accepted, "findings": rows}))
        return
    for finding in verdict.findings:
        sign = click.style("yes", fg="green") if finding.holds else click.style("NO ", fg="red")
        detail = f": {finding.detail}" if finding.detail else ""
        click.echo(f"  {sign}  {finding.property}{detail}")
    click.echo(USABLE if verdict.accepted else UNUSABLE)
