"""Real object stores on loopback: moto for every run; SeaweedFS, rclone and Azurite for `object`.

Each is a context manager that yields its address; `new_place` is an empty store there.
"""

import base64
import hashlib
import hmac
import json
import logging
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from itertools import count
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from borzoi.objectstore.locations import Location, Secrets, Timing

SECRETS = Secrets("borzoi", "borzoi-secret")
REGION = "us-east-1"
BUCKET = "borzoi-tests"
#: The account that every Azurite has, and its published key.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
AZURE_API_VERSION = "2021-12-02"
#: Azurite comes from npm: on the path, or in this folder of the repository.
AZURITE_FOLDER = Path(__file__).parents[2] / ".azurite"
AZURITE_INSTALL = "npm install --prefix .azurite azurite@3"
START_SECONDS_MAX = 120.0
#: Short, so that a fault shows within a test; long enough for a busy machine.
TIMING = Timing(connect_seconds=5.0, request_seconds=20.0, part_retries=3, part_retry_seconds=60.0)

_numbers = count(1)


def location_of(endpoint: str, bucket: str, prefix: str = "") -> Location:
    return Location("s3", bucket, prefix, endpoint=endpoint, region=REGION, secrets=SECRETS)


def client_of(endpoint: str):
    """A client of another make, to look at a store from outside."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=SECRETS.access_key_id,
        aws_secret_access_key=SECRETS.secret_access_key,
        config=Config(retries={"max_attempts": 10}, s3={"addressing_style": "path"}),
    )


def new_place(endpoint: str) -> Location:
    """A part of the bucket that no other test uses.

    One bucket for all: SeaweedFS sets volumes aside for each, and has few.
    """
    return location_of(endpoint, BUCKET, f"some/prefix-{next(_numbers)}")


def make_bucket(endpoint: str) -> None:
    client = client_of(endpoint)
    try:
        client.create_bucket(Bucket=BUCKET)
    finally:
        client.close()


@contextmanager
def moto_server() -> Iterator[str]:
    """The address of moto's S3, in a thread of this process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        make_bucket(endpoint)
        yield endpoint
    finally:
        server.stop()


@contextmanager
def seaweed_server(directory: Path) -> Iterator[str]:
    """The address of the S3 gateway of a SeaweedFS of one machine."""
    ports = iter(free_ports(5))
    identity = {
        "name": "borzoi",
        "credentials": [
            {"accessKey": SECRETS.access_key_id, "secretKey": SECRETS.secret_access_key}
        ],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config = directory / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    port = next(ports)
    command = [
        str(Path(sys.executable).with_name("weed")),
        "server",
        f"-dir={directory}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        f"-s3.port={port}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={config}",
        f"-master.port={next(ports)}",
        f"-volume.port={next(ports)}",
        f"-filer.port={next(ports)}",
        "-master.volumeSizeLimitMB=1024",
        "-volume.max=20",
    ]
    with _running(command, directory / "weed.output") as process:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_buckets_work(endpoint, process)
        yield endpoint


@contextmanager
def rclone_server(directory: Path) -> Iterator[str]:
    """The address of `rclone serve s3`, which lacks what borzoi needs."""
    (port,) = free_ports(1)
    command = [
        str(Path(sys.executable).with_name("rclone")),
        "serve",
        "s3",
        f"--addr=127.0.0.1:{port}",
        f"--auth-key={SECRETS.access_key_id},{SECRETS.secret_access_key}",
        "--vfs-cache-mode=writes",
        f"--cache-dir={directory / 'cache'}",
        f"--config={directory / 'none.conf'}",
        str(directory),
    ]
    with _running(command, directory.parent / f"{directory.name}.output") as process:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_buckets_work(endpoint, process)
        yield endpoint


@contextmanager
def azurite_server(directory: Path) -> Iterator[str]:
    """The address of the blob service of Azurite, Microsoft's own stand-in for Azure."""
    search = str(AZURITE_FOLDER / "node_modules" / ".bin")
    program = shutil.which("azurite-blob") or shutil.which("azurite-blob", path=search)
    if program is None:
        pytest.skip(f"Azurite is not installed: {AZURITE_INSTALL}")
    (port,) = free_ports(1)
    command = [
        program,
        "--blobHost=127.0.0.1",
        f"--blobPort={port}",
        f"--location={directory}",
        "--skipApiVersionCheck",
        "--disableTelemetry",
        "--silent",
    ]
    with _running(command, directory / "azurite.output") as process:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_it_answers(endpoint, process)
        make_container(endpoint)
        yield f"{endpoint}/{AZURE_ACCOUNT}"


def azure_place(endpoint: str) -> Location:
    """A part of the container that no other test uses; the keys come from the environment."""
    return Location("azure", BUCKET, f"some/prefix-{next(_numbers)}", endpoint=endpoint)


def make_container(endpoint: str) -> None:
    """One request with a signature of our own: the library cannot create containers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": AZURE_API_VERSION}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    # The path holds the account once for the address and once for the account itself.
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + 12 * "\n" + named + resource
    mac = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(mac).decode()}"
    url = f"{endpoint}/{AZURE_ACCOUNT}/{BUCKET}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=10).close()


@contextmanager
def _running(command: list[str], output: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with output.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _wait_until_it_answers(endpoint: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            urllib.request.urlopen(endpoint, timeout=2).close()
        except urllib.error.HTTPError as answer:
            answer.close()
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.1)
            continue
        return


def _wait_until_buckets_work(endpoint: str, process: "subprocess.Popen[bytes]") -> None:
    _wait_until_it_answers(endpoint, process)
    deadline = time.monotonic() + START_SECONDS_MAX
    make_bucket(endpoint)
    client = client_of(endpoint)
    try:
        while True:
            try:
                client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
            except ClientError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return
    finally:
        client.close()


def free_ports(number: int) -> list[int]:
    """Ports that were free a moment ago; SeaweedFS also takes each of them plus 10,000."""
    found: list[int] = []
    while len(found) < number:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if port > 55_000:
                continue
            try:
                second.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            found.append(port)
    return found
