"""The options of the source and of the topic sink: strings in, frozen values out.

Spark passes options as strings with lower-case keys. Each option is one row of a table: its name,
its default, and the function that parses it. `docs/spark.md` prints the tables,
and a test compares the two.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from borzoi.model.errors import BorzoiError
from borzoi.model.units import parse_duration
from borzoi.spark.option_values import (
    Moment,
    assigned_partitions,
    boolean,
    different,
    limit,
    moment,
    one_of,
    partition_table,
    pattern,
    payload_columns,
    positive,
    size_above_zero,
    topic_name,
    topic_names,
)

#: Columns a reader may select, in their default order.
COLUMNS: Final = (
    "stream",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "origin_timestamp",
    "id",
    "checksum",
    "headers",
    "payload",
)
#: Keys that Spark itself adds to the options of a source or sink.
SPARK_KEYS: Final = frozenset({"path", "checkpointlocation", "queryname", "mergeschema"})

MEBIBYTE: Final = 1024 * 1024


class InvalidOption(BorzoiError, ValueError):
    """An option has a name or a value that the connector does not know."""


class Option(NamedTuple):
    """One option: its name, its default as a string, and its parser."""

    name: str
    default: str | None
    read: Callable[[str], Any]
    meaning: str


# ---- the tables ---------------------------------------------------------------------------------

CONNECTION_ROWS: Final = (
    Option("servers", "127.0.0.1:8090", str, "address of the server, or several with commas"),
    Option("connection", None, str, "connection string, in place of servers and credentials"),
    Option("username", None, str, "user to log in as"),
    Option("password", None, str, "password; shown in plans unless Spark redacts it"),
    Option("passwordEnv", None, str, "environment variable that holds the password"),
    Option("passwordFile", None, str, "file that holds the password"),
    Option("token", None, str, "personal access token, in place of user and password"),
    Option("tokenEnv", None, str, "environment variable that holds the token"),
    Option("tokenFile", None, str, "file that holds the token"),
    Option("timeout", "30s", parse_duration, "wait for one answer of the server at most this long"),
    Option("retries", "6", positive, "further attempts when no connection can be made"),
    Option(
        "retryInterval", "200ms", parse_duration, "first pause between two attempts; it doubles"
    ),
)

SOURCE_ROWS: Final = (
    *CONNECTION_ROWS,
    Option("subscribe", None, topic_names, "topics, as stream/topic with commas between"),
    Option("subscribePattern", None, pattern, "regular expression over stream/topic"),
    Option("assign", None, assigned_partitions, 'partitions, as {"stream/topic": [0, 1]}'),
    Option("columns", None, different(*COLUMNS), "columns to read, in this order"),
    Option("headers", "raw", one_of("none", "raw", "map", "typed"), "form of the user headers"),
    Option("payloadFormat", "binary", one_of("binary", "string", "json"), "form of the payload"),
    Option("payloadSchema", None, payload_columns, "columns of JSON payloads, as id long, …"),
    Option("startingOffsets", None, limit, "earliest, latest, or offsets by partition"),
    Option("startingTimestamp", None, moment, "first time to read; -10m is relative"),
    Option("startingOffsetsByTimestamp", None, partition_table, "first time by partition"),
    Option(
        "startingOffsetsByTimestampStrategy",
        "latest",
        one_of("error", "latest"),
        "when no message is that new",
    ),
    Option("endingOffsets", None, limit, "batch: end (exclusive) by partition"),
    Option("endingTimestamp", None, moment, "batch: first time not to read"),
    Option("endingOffsetsByTimestamp", None, partition_table, "batch: the same by partition"),
    Option("maxOffsetsPerTrigger", None, positive, "stream: messages in one batch"),
    Option("maxBytesPerTrigger", None, size_above_zero, "stream: bytes of messages in one batch"),
    Option("minOffsetsPerTrigger", None, positive, "stream: wait for this many messages"),
    Option("maxTriggerDelay", "15m", parse_duration, "stream: but at most this long"),
    Option("minPartitions", None, positive, "cut into at least this many tasks"),
    Option("maxRecordsPerPartition", None, positive, "messages of one task at most"),
    Option("maxBytesPerPartition", None, size_above_zero, "bytes of one task at most; see below"),
    Option("keepOrder", None, boolean, "one task for each partition; see below"),
    Option("failOnDataLoss", "true", boolean, "end the query when messages are gone"),
    Option("consumerName", None, str, "name under which processed offsets are stored"),
    Option(
        "segments",
        "auto",
        one_of("auto", "direct", "server", "direct-only"),
        "where sealed segments are read",
    ),
    Option("dataDirectory", None, Path, "data directory of the server, as the executors see it"),
    Option("maxPollBytes", "4 MiB", size_above_zero, "answer to one poll, about"),
    Option("verify", "none", one_of("none", "checksum"), "also check every checksum"),
    Option("jvm", "auto", one_of("auto", "off"), "read plain segments inside the JVM; see below"),
    Option("plane", "row", one_of("row", "bulk"), "bulk: one row for each range, not each message"),
)

#: Options that cut partitions into several tasks.
CUTTING: Final = ("minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition")

IDEMPOTENCE: Final = ("auto", "lineage", "key", "position", "column", "none")

SINK_ROWS: Final = (
    *CONNECTION_ROWS,
    Option("topic", None, topic_name, "stream/topic to write to, when no column names it"),
    Option("idempotence", "auto", one_of(*IDEMPOTENCE), "how message ids are generated"),
    Option("idColumns", None, str, "columns that make a row unique, for idempotence=key"),
    Option("writeId", None, str, "batch: makes the ids of a repeated write the same"),
    Option("batchBytes", "1 MiB", size_above_zero, "messages in one request, about"),
    Option("batchMessages", "10000", positive, "messages in one request at most"),
    Option("maxMessagesPerSecond", None, positive, "rate of each task at most"),
    Option("orphanGrace", "2s", parse_duration, "wait before the first check after a restart"),
    Option("createPartitions", None, positive, "create the topic with this many partitions"),
)


def read_options(rows: tuple[Option, ...], options: Mapping[str, str]) -> dict[str, Any]:
    """Values by name; raises for the first option that is unknown or cannot be read."""
    known = {row.name.lower(): row for row in rows}
    for key in options:
        if key.lower() not in known and key.lower() not in SPARK_KEYS:
            raise InvalidOption(_unknown(key, [row.name for row in rows]))
    given = {key.lower(): value for key, value in options.items()}
    values = {}
    for key, row in known.items():
        text = given.get(key, row.default)
        values[row.name] = None if text is None else _read(row, text)
    return values


def _read(row: Option, text: str) -> Any:
    try:
        return row.read(text.strip())
    except BorzoiError as error:
        raise InvalidOption(f"option {row.name} = {text!r} is not allowed: {error}") from error


def _unknown(key: str, names: list[str]) -> str:
    near = difflib.get_close_matches(key.lower(), [name.lower() for name in names], 1)
    nearest = next((name for name in names if near and name.lower() == near[0]), None)
    hint = f"; did you mean {nearest}?" if nearest else ""
    return f"there is no option {key!r}{hint}"


# ---- the values ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to connect and log in to a server. Secrets are read only where they are used."""

    servers: str
    connection: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None
    password_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_env: str | None = None
    token_file: str | None = None
    timeout: int = 30_000_000
    retries: int = 6
    retry_interval: int = 200_000


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading starts or ends: a keyword, offsets, a time, or times by partition."""

    word: str | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    moment: Moment | None = None
    moments: Mapping[str, Mapping[int, int]] | None = None
    is_error_when_too_new: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a reader."""

    connection: ConnectionOptions
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: Mapping[str, tuple[int, ...]] | None = None
    columns: tuple[str, ...] = ()
    headers: str = "raw"
    payload_format: str = "binary"
    #: Definitions of the columns of JSON payloads by name.
    payload_columns: Mapping[str, str] = field(default_factory=dict)
    starting: Bound = Bound("earliest")
    ending: Bound = Bound("latest")
    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay: int = 15 * 60 * 1_000_000
    min_partitions: int = 1
    max_records_per_split: int | None = None
    max_bytes_per_split: int | None = None
    #: None leaves it to the kind of query.
    keep_order: bool | None = None
    fail_on_data_loss: bool = True
    consumer_name: str | None = None
    segments: str = "auto"
    data_directory: Path | None = None
    max_poll_bytes: int = 4 * MEBIBYTE
    verify: str = "none"
    jvm: str = "auto"
    plane: str = "row"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a topic writer."""

    connection: ConnectionOptions
    topic: str | None = None
    idempotence: str = "auto"
    id_columns: tuple[str, ...] = ()
    write_id: str | None = None
    batch_bytes: int = MEBIBYTE
    batch_messages: int = 10_000
    messages_per_second: int | None = None
    orphan_grace: int = 2_000_000
    create_partitions: int | None = None


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of `format("borzoi")` for reading."""
    values = read_options(SOURCE_ROWS, options)
    chosen = [
        name for name in ("subscribe", "subscribePattern", "assign") if values[name] is not None
    ]
    if len(chosen) != 1:
        raise InvalidOption("exactly one of subscribe, subscribePattern and assign must be given")
    if values["segments"] in ("direct", "direct-only") and values["dataDirectory"] is None:
        raise InvalidOption(f"segments={values['segments']} needs the option dataDirectory")
    cutting = [name for name in CUTTING if values[name] is not None]
    if values["keepOrder"] and cutting:
        raise InvalidOption(f"keepOrder and {cutting[0]} exclude each other")
    pattern = values["subscribePattern"]
    return SourceOptions(
        connection=_connection(values),
        subscribe=values["subscribe"] or tuple(values["assign"] or ()),
        pattern=pattern.pattern if pattern else None,
        assign=values["assign"],
        columns=_chosen_columns(values),
        headers=values["headers"],
        payload_format=values["payloadFormat"],
        payload_columns=_payload_columns(values),
        starting=_bound(values, "starting", "earliest"),
        ending=_bound(values, "ending", "latest"),
        max_offsets=values["maxOffsetsPerTrigger"],
        max_bytes=values["maxBytesPerTrigger"],
        min_offsets=values["minOffsetsPerTrigger"],
        max_delay=values["maxTriggerDelay"],
        min_partitions=values["minPartitions"] or 1,
        max_records_per_split=values["maxRecordsPerPartition"],
        max_bytes_per_split=values["maxBytesPerPartition"],
        keep_order=values["keepOrder"],
        fail_on_data_loss=values["failOnDataLoss"],
        consumer_name=values["consumerName"],
        segments=values["segments"],
        data_directory=values["dataDirectory"],
        max_poll_bytes=values["maxPollBytes"],
        verify=values["verify"],
        jvm=values["jvm"],
        plane=values["plane"],
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of `format("borzoi")` for writing."""
    values = read_options(SINK_ROWS, options)
    id_columns = tuple(n.strip() for n in (values["idColumns"] or "").split(",") if n.strip())
    if (values["idempotence"] == "key") != bool(id_columns):
        raise InvalidOption("idColumns belongs to idempotence=key: give both or neither")
    return SinkOptions(
        connection=_connection(values),
        topic=values["topic"],
        idempotence=values["idempotence"],
        id_columns=id_columns,
        write_id=values["writeId"],
        batch_bytes=values["batchBytes"],
        batch_messages=values["batchMessages"],
        messages_per_second=values["maxMessagesPerSecond"],
        orphan_grace=values["orphanGrace"],
        create_partitions=values["createPartitions"],
    )


def bulk_options(
    rows: tuple[Option, ...], options: Mapping[str, str]
) -> tuple[dict[str, str], SourceOptions]:
    """The options of a sink that reads the messages itself: its own, and those of the source.

    Both ends connect in the same way.
    """
    own = {row.name.lower() for row in rows}
    theirs = {row.name.lower() for row in SOURCE_ROWS}
    for key in options:
        if key.lower() not in own | theirs | SPARK_KEYS:
            raise InvalidOption(_unknown(key, [row.name for row in (*rows, *SOURCE_ROWS)]))
    mine = {key: value for key, value in options.items() if key.lower() in own}
    source = {key: value for key, value in options.items() if key.lower() in theirs}
    return mine, source_options(source | {"plane": "bulk"})


def _connection(values: Mapping[str, Any]) -> ConnectionOptions:
    secrets = [
        name
        for name in ("password", "passwordEnv", "passwordFile", "token", "tokenEnv", "tokenFile")
        if values[name] is not None
    ]
    if len(secrets) > 1:
        raise InvalidOption(f"{secrets[0]} and {secrets[1]} exclude each other")
    return ConnectionOptions(
        values["servers"],
        values["connection"],
        values["username"],
        values["password"],
        values["passwordEnv"],
        values["passwordFile"],
        values["token"],
        values["tokenEnv"],
        values["tokenFile"],
        values["timeout"],
        values["retries"],
        values["retryInterval"],
    )


def _payload_columns(values: Mapping[str, Any]) -> dict[str, str]:
    if (values["payloadFormat"] == "json") != (values["payloadSchema"] is not None):
        raise InvalidOption("payloadSchema belongs to payloadFormat=json: give both or neither")
    found: dict[str, str] = values["payloadSchema"] or {}
    if found and values["plane"] == "bulk":
        raise InvalidOption("payloadFormat=json needs plane=row: the bulk plane parses no payload")
    twice = {name.lower() for name in found} & {*(values["columns"] or ())} - {"payload"}
    if twice:
        raise InvalidOption(f"the column {min(twice)!r} is in columns and in payloadSchema")
    return found


def _chosen_columns(values: Mapping[str, Any]) -> tuple[str, ...]:
    if values["columns"] is not None:
        chosen: tuple[str, ...] = values["columns"]
        return chosen
    topics = values["subscribe"] or tuple(values["assign"] or ())
    left_out = {"checksum"} | ({"headers"} if values["headers"] == "none" else set())
    left_out |= {name.lower() for name in values["payloadSchema"] or ()} - {"payload"}
    if values["subscribePattern"] is None and len(topics) == 1:
        left_out |= {"stream", "topic"}
    return tuple(name for name in COLUMNS if name not in left_out)


def _bound(values: Mapping[str, Any], side: str, default: str) -> Bound:
    names = [f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"]
    given = [name for name in names if values[name] is not None]
    if len(given) > 1:
        raise InvalidOption(f"{given[0]} and {given[1]} exclude each other")
    if not given:
        return Bound(default)
    value = values[given[0]]
    if given[0] == names[1]:
        return Bound(moment=value)
    if given[0] == names[2]:
        is_error = values["startingOffsetsByTimestampStrategy"] == "error"
        return Bound(moments=value, is_error_when_too_new=is_error and side == "starting")
    return Bound(value) if isinstance(value, str) else Bound(offsets=value)
