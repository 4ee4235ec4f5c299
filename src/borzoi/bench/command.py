"""``borzoi bench``: the command tree of the load generator.

::

    borzoi bench [options] KIND [its options] [tcp|websocket|http|quic [options]] [output [options]]

Options of each level are collected, and the last level that is given starts the run.
"""

import dataclasses
import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console

from borzoi.bench.comparing import compare as compared
from borzoi.bench.embedded import embedded_server
from borzoi.bench.limit import measure
from borzoi.bench.page import page_of
from borzoi.bench.plan import (
    KINDS,
    LoadKind,
    Plan,
    batches_for,
    check,
    filling,
    frame_bytes,
    span_of,
)
from borzoi.bench.report import ReportContext, default_identifier, directory_name, report_of
from borzoi.bench.running import processes_for, run
from borzoi.bench.screen import live, print_differences, print_limits, print_summary
from borzoi.client import Client
from borzoi.client.connection_string import parse
from borzoi.client.options import Options, Password
from borzoi.command_tree import CommandTree
from borzoi.model.errors import BorzoiError
from borzoi.model.units import parse_bytes, parse_duration

#: Name and aliases of a transport → the scheme of its connection string, its usual address.
TRANSPORTS: Final = {
    "tcp": ("iggy+tcp", "127.0.0.1:8090"),
    "websocket": ("iggy+ws", "127.0.0.1:8092"),
    "http": ("iggy+http", "127.0.0.1:3000"),
    "quic": ("iggy+quic", "127.0.0.1:8080"),
}
TRANSPORT_ALIASES: Final = {"ws": "websocket"}
SECONDS_PER_UNIT: Final = 1e6

EXAMPLES: Final = """\
borzoi bench --embedded pinned-producer                      8 producers, 8 GB, own server
borzoi bench -m 200..2000 -P 100 pp -p 4 tcp                 mixed sizes, small batches, 4 streams
borzoi bench -r 100MB ppc -p 2 -c 2                          100 MB/s in all, latency end to end
borzoi bench bpcg -a 12 -p 4 -c 4 output -o results          a group, report and charts kept
borzoi bench --limit pp -p 1                                 next to the limits of the machine
borzoi bench compare results/A results/B                     two reports side by side"""


class Invocation(msgspec.Struct):
    """Options collected on the way down the command tree."""

    plan: Plan = msgspec.field(default_factory=lambda: Plan(KINDS[0]))
    total_data: str | None = None
    username: str = "iggy"
    password: str = "iggy"  # noqa: S105 - what every fresh server of the protocol has
    processes: int | None = None
    embedded: bool = False
    with_limit: bool = False
    transport: str = "tcp"
    server_address: str | None = None
    query: dict[str, str] = msgspec.field(default_factory=dict)
    output_dir: Path | None = None
    surroundings: dict[str, str] = msgspec.field(default_factory=dict)
    open_charts: bool = False


@click.group(
    cls=CommandTree,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="See `examples`.",
)
@click.option("-m", "--message-size", default="1000", help="Bytes of a payload, or MIN..MAX.")
@click.option(
    "-P", "--messages-per-batch", default="1000", help="Messages of a batch, or MIN..MAX."
)
@click.option("-b", "--message-batches", type=int, help="Batches per actor.  [default: 1000]")
@click.option("-T", "--total-data", help="Payload bytes of all actors, instead of batches.")
@click.option("-r", "--rate-limit", help="Payload bytes a second of all actors together.")
@click.option("-w", "--warmup-time", default="0s", help="Not measured at the start.")
@click.option("-t", "--sampling-time", default="10ms", help="Width of a point in the charts.")
@click.option("-W", "--moving-average-window", type=click.IntRange(1), default=20)
@click.option("-u", "--username", default="iggy", show_default=True)
@click.option("-p", "--password", default="iggy")
@click.option(
    "--processes", type=click.IntRange(1), help="Load processes.  [default: one per core]"
)
@click.option("--reuse-streams", is_flag=True, help="Keep existing streams.")
@click.option("--embedded", is_flag=True, help="Start a server in a temporary directory.")
@click.option("--limit", "with_limit", is_flag=True, help="Measure the machine's limits as well.")
@click.pass_context
def bench(context: click.Context, /, **options: Any) -> None:
    """Load a server of the 0.8 protocol and report throughput and latency."""
    with _reported():
        plan = Plan(
            KINDS[0],
            message_size=span_of(options["message_size"], "--message-size"),
            messages_per_batch=span_of(options["messages_per_batch"], "--messages-per-batch"),
            message_batches=options["message_batches"] or 1000,
            rate_limit=parse_bytes(options["rate_limit"]) if options["rate_limit"] else 0,
            warmup_seconds=parse_duration(options["warmup_time"]) / SECONDS_PER_UNIT,
            sampling_seconds=parse_duration(options["sampling_time"]) / SECONDS_PER_UNIT,
            moving_average_window=options["moving_average_window"],
            reuse_streams=options["reuse_streams"],
        )
    names = ("total_data", "username", "password", "processes", "embedded", "with_limit")
    context.obj = Invocation(plan, **{name: options[name] for name in names})


class _reported:
    """Ends the command with one message for a `BorzoiError`."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, BorzoiError):
            raise click.ClickException(str(fault)) from fault


def _kind_command(kind: LoadKind) -> click.Group:
    params: list[click.Parameter] = []

    def add(*names: str, default: object, text: str, **more: Any) -> None:
        params.append(click.Option(names, default=default, help=text, show_default=True, **more))

    if kind.produces:
        add(
            "-p",
            "--producing-consumers" if kind.alternates and not kind.balanced else "--producers",
            "producers",
            default=8,
            text="Producers.",
            type=int,
        )
        add("-T", "--max-topic-size", default="server_default", text="Of the topics.")
        add("-e", "--message-expiry", default="server_default", text="Of the topics.")
    if kind.consumes and not (kind.alternates and not kind.balanced):
        add("-c", "--consumers", default=8, text="Consumers.", type=int)
    if kind.balanced and kind.consumes:
        add("-g", "--consumer-groups", "groups", default=1, text="Groups.", type=int)
    if kind.balanced or (kind.produces and kind.consumes and not kind.alternates):
        add("-a", "--partitions", default=kind.partitions, text="Partitions a topic.", type=int)
    if kind.produces and kind.consumes and not kind.alternates:
        add("-R", "--read-amplification", default=1.05, text="Rate of reading.", type=float)
    params.append(
        click.Option(
            ["-s", "--streams"], type=int, help=f"Streams.  [default: {_usual_streams(kind)}]"
        )
    )

    def callback(**options: Any) -> None:
        context = click.get_current_context()
        invocation: Invocation = context.obj
        invocation.plan = _with_kind(invocation.plan, kind, options)
        if context.invoked_subcommand is None:
            execute(invocation)

    group = CommandTree(
        kind.name,
        callback=callback,
        params=params,
        invoke_without_command=True,
        help=f"{kind.summary[0].upper()}{kind.summary[1:]}.",
    )
    for name in TRANSPORTS:
        group.add_command(_transport_command(name))
    for alias, name in TRANSPORT_ALIASES.items():
        group.add_aliases(name, alias)
    group.add_command(_output_command())
    return group


def _usual_streams(kind: LoadKind) -> str:
    if kind.streams is not None:
        return str(kind.streams)
    return "one per producer" if kind.produces else "one per consumer"


def _with_kind(plan: Plan, kind: LoadKind, options: dict[str, Any]) -> Plan:
    producers = options.get("producers", 0)
    consumers = options.get("consumers", 0)
    if kind.alternates and not kind.balanced:
        consumers = producers
    streams = options["streams"] or kind.streams or (producers if kind.produces else consumers)
    return replace(
        plan,
        kind=kind,
        producers=producers,
        consumers=consumers,
        streams=min(streams, max(producers, consumers)) if kind.alternates else streams,
        partitions=options.get("partitions", kind.partitions),
        groups=options.get("groups", 0),
        read_amplification=options.get("read_amplification", 1.0),
        max_topic_size=options.get("max_topic_size", "server_default"),
        message_expiry=options.get("message_expiry", "server_default"),
    )


def _transport_command(name: str) -> click.Group:
    def callback(**options: Any) -> None:
        context = click.get_current_context()
        invocation: Invocation = context.obj
        invocation.transport = name
        invocation.server_address = options.pop("server_address")
        invocation.query = {
            key: _text(value) for key, value in options.items() if value and key != "nodelay"
        }
        if context.invoked_subcommand is None:
            execute(invocation)

    params: list[click.Parameter] = [
        click.Option(["--server-address"], default=TRANSPORTS[name][1], show_default=True)
    ]
    if name != "quic":
        params += [
            click.Option(["--tls"], is_flag=True),
            click.Option(["--tls-domain"]),
            click.Option(["--tls-ca-file"]),
        ]
    if name == "tcp":
        params.append(click.Option(["--nodelay"], is_flag=True, help="Always on."))
    group = click.Group(
        name, callback=callback, params=params, invoke_without_command=True, help=f"Over {name}."
    )
    group.add_command(_output_command())
    return group


def _text(value: object) -> str:
    return "true" if value is True else str(value)


def _output_command() -> click.Command:
    @click.command(help="Keep report.json and report.html.")
    @click.option("-o", "--output-dir", type=Path, default=Path("performance_results"))
    @click.option("--identifier", help="Name of this machine.  [default: its host name]")
    @click.option("--remark", default="")
    @click.option("--extra-info", default="")
    @click.option("--gitref", default="")
    @click.option("--gitref-date", default="")
    @click.option("-c", "--open-charts", is_flag=True, help="Show report.html in a browser.")
    @click.pass_obj
    def output(invocation: Invocation, /, **options: Any) -> None:
        invocation.output_dir = options.pop("output_dir")
        invocation.open_charts = options.pop("open_charts")
        invocation.surroundings = {key: value for key, value in options.items() if value}
        execute(invocation)

    return output


assert isinstance(bench, CommandTree)
for _kind in KINDS:
    bench.add_command(_kind_command(_kind))
    bench.add_aliases(_kind.name, _kind.alias)


@bench.command()
def examples() -> None:
    """Print commands to start from."""
    click.echo(EXAMPLES)


@bench.command()
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.pass_obj
def limit(invocation: Invocation, directory: Path) -> None:
    """Measure what this machine reaches with the same batches, without a server."""
    measured = measure(frame_bytes(invocation.plan), directory)
    print_limits(measured, Console())


@bench.command()
@click.argument("before", type=click.Path(exists=True, path_type=Path))
@click.argument("after", type=click.Path(exists=True, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Compare two reports: files, or their directories."""
    with _reported():
        print_differences(list(compared(_read_report(before), _read_report(after))), Console())


def _read_report(path: Path) -> dict[str, Any]:
    file = path / "report.json" if path.is_dir() else path
    try:
        report: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as fault:
        raise click.ClickException(f"{file} is not a report: {fault}") from fault
    return report


def execute(invocation: Invocation) -> None:
    """Run the collected plan, print the report, and save it if requested."""
    console = Console(stderr=True)
    with _reported(), ExitStack() as stack:
        plan = invocation.plan
        if invocation.total_data:
            batches = batches_for(parse_bytes(invocation.total_data), plan)
            plan = replace(plan, message_batches=batches)
        check(plan)
        options = _options(invocation, stack)
        processes = processes_for(plan, invocation.processes)
        if invocation.embedded and not plan.kind.produces:
            # A server of its own has nothing to read yet.
            run(filling(plan), options, processes=processes)
        with live(plan, console) as progress:
            measured = run(plan, options, processes=processes, progress=progress)
        with Client(options) as client:
            stats = client.get_stats()
        limits = measure(frame_bytes(plan), Path()) if invocation.with_limit else None
        surroundings = ReportContext(
            transport=invocation.transport,
            server_address=str(options.addresses[0]),
            command=shlex.join(["borzoi", *sys.argv[1:]]),
            **({"identifier": default_identifier()} | invocation.surroundings),
        )
        report = report_of(plan, measured, surroundings, _document(stats), limits)
        print_summary(report, Console())
        if invocation.output_dir is not None:
            folder = _kept(report, invocation.output_dir / directory_name(plan, surroundings))
            click.echo(f"report: {folder / 'report.html'}", err=True)
            if invocation.open_charts:
                click.launch(str(folder / "report.html"))


def _document(stats: Any) -> dict[str, Any]:
    names = getattr(stats, "__struct_fields__", ())
    simple = (int, float, str)
    return {name: value for name in names if isinstance(value := getattr(stats, name), simple)}


def _kept(report: dict[str, Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1), "utf-8")
    (folder / "report.html").write_text(page_of(report), "utf-8")
    return folder


def _options(invocation: Invocation, stack: ExitStack) -> Options:
    if invocation.embedded:
        address = stack.enter_context(embedded_server(invocation.transport))
    else:
        address = invocation.server_address or TRANSPORTS[invocation.transport][1]
    scheme = TRANSPORTS[invocation.transport][0]
    query = "&".join(f"{key}={value}" for key, value in invocation.query.items())
    options = parse(f"{scheme}://{address}" + (f"?{query}" if query else ""))
    return dataclasses.replace(
        options, credentials=Password(invocation.username, invocation.password)
    )
