"""Every key of the configuration, with its default and its meaning, section by section.

The names are those of 0.8; those that only borzoi has are marked in their meaning. Each part gets
only its own section, as a value.
"""

from borzoi.server.archive_settings import BackupSection
from borzoi.server.declaring import Section, section, setting, tables
from borzoi.server.kinds import (
    BYTES,
    CPU_ALLOCATION,
    DURATION,
    EXPIRY,
    FLAG,
    MAX_SIZE,
    PATH,
    TEXT,
    choice,
    count,
)
from borzoi.server.transport_settings import (
    HttpSection,
    QuicSection,
    TcpSection,
    WebSocketSection,
)

U32 = 2**32 - 1
TELEMETRY = "OpenTelemetry export"


class ConsumerGroupSection(Section):
    rebalancing_timeout: int = setting(
        DURATION, "30 s", "how long a partition may wait for its old owner's commit before it moves"
    )
    rebalancing_check_interval: int = setting(
        DURATION, "5 s", "how often waiting partitions are checked"
    )


class CleanerSection(Section):
    cleaner_enabled: bool = setting(FLAG, False, "delete segments that are too old or too many")
    interval: int = setting(DURATION, "1 m", "how often the cleaner runs")
    consumer_barrier: bool = setting(
        FLAG,
        True,
        "borzoi: keep segments that the slowest stored offset has not passed yet",
    )


class DataMaintenanceSection(Section):
    messages: CleanerSection = section(CleanerSection)


class MessageSaverSection(Section):
    enabled: bool = setting(FLAG, True, "save buffered messages periodically")
    interval: int = setting(DURATION, "30 s", "how often")
    enforce_fsync: bool = setting(FLAG, True, "and force it to the disk each time")


class TokenCleanerSection(Section):
    enabled: bool = setting(FLAG, True, "forget expired tokens")
    interval: int = setting(DURATION, "1 m", "how often")


class PersonalAccessTokenSection(Section):
    max_tokens_per_user: int = setting(count(1, U32), 100, "tokens one user may have")
    cleaner: TokenCleanerSection = section(TokenCleanerSection)


class HeartbeatSection(Section):
    enabled: bool = setting(FLAG, False, "drop sessions that stopped sending pings")
    interval: int = setting(DURATION, "5 s", "how often a client is expected to ping")


class TelemetryExportSection(Section):
    transport: str = setting(choice("grpc", "http"), "grpc", "protocol", later=TELEMETRY)
    endpoint: str = setting(TEXT, "http://localhost:7281/v1/logs", "collector", later=TELEMETRY)


class TelemetryTracesSection(Section):
    transport: str = setting(choice("grpc", "http"), "grpc", "protocol", later=TELEMETRY)
    endpoint: str = setting(TEXT, "http://localhost:7281/v1/traces", "collector", later=TELEMETRY)


class TelemetrySection(Section):
    enabled: bool = setting(FLAG, False, "send logs and traces to a collector", later=TELEMETRY)
    service_name: str = setting(TEXT, "iggy", "the service name reported there", later=TELEMETRY)
    logs: TelemetryExportSection = section(TelemetryExportSection)
    traces: TelemetryTracesSection = section(TelemetryTracesSection)


class StateSection(Section):
    enforce_fsync: bool = setting(FLAG, False, "force every metadata entry to the disk")
    max_file_operation_retries: int = setting(
        count(0, 1), 1, "kept for 0.8 files; a failed write is never retried, so only 0 or 1"
    )
    retry_delay: int = setting(DURATION, "1 s", "kept for 0.8 files; there are no retries")


class RuntimeSection(Section):
    path: str = setting(PATH, "runtime", "where current_config.toml is written")


class LoggingSection(Section):
    path: str = setting(PATH, "logs", "where log files are written")
    level: str = setting(
        choice("trace", "debug", "info", "warn", "error", "off"), "info", "log level"
    )
    file_enabled: bool = setting(FLAG, True, "write log files as well as the console")
    max_file_size: int = setting(BYTES, "500 MB", "size of a file before rotation; 0 for no limit")
    max_total_size: int = setting(BYTES, "4 GB", "total size of all files; 0 for no limit")
    rotation_check_interval: int = setting(DURATION, "1 h", "how often that is checked")
    retention: int = setting(DURATION, "7 days", "how long a rotated file is kept")
    sysinfo_print_interval: int = setting(
        DURATION, "10 s", "how often memory, clients and messages are logged; 0 for never"
    )


class EncryptionSection(Section):
    enabled: bool = setting(FLAG, False, "encrypt messages and metadata on the disk")
    key: str = setting(TEXT, "", "32 bytes in Base64", secret=True)


class CompressionSection(Section):
    allow_override: bool = setting(FLAG, False, "let a topic opt out of the default compression")
    default_algorithm: str = setting(
        choice("none", "gzip", "lz4", "zstd"), "none", "for sealed segments of topics without one"
    )


class StreamSection(Section):
    path: str = setting(PATH, "streams", "folder of all streams")


class TopicSection(Section):
    path: str = setting(PATH, "topics", "folder of a stream's topics")
    max_size: int = setting(MAX_SIZE, "unlimited", "maximum size of a topic with the default")
    message_expiry: int = setting(EXPIRY, "none", "expiry of messages in a topic with the default")


class PartitionSection(Section):
    path: str = setting(PATH, "partitions", "folder of a topic's partitions")
    acknowledge: str = setting(
        choice("buffered", "written", "synced"),
        "written",
        "borzoi: what must have happened to messages before a send is answered",
    )
    enforce_fsync: bool = setting(FLAG, False, "the same as acknowledge = synced")
    validate_checksum: bool = setting(FLAG, False, "check every stored message at start")
    messages_required_to_save: int = setting(
        count(1, U32), 1024, "buffered messages that cause a save"
    )
    size_of_messages_required_to_save: int = setting(
        BYTES, "1 MiB", "buffered bytes that cause a save"
    )
    max_poll_size: int = setting(
        BYTES, "4 GB", "borzoi: maximum bytes of one poll, beyond its first message; 1 B to 4 GB"
    )


class SegmentSection(Section):
    size: int = setting(BYTES, "1 GiB", "maximum size of a segment; a multiple of 512 B")
    archive_expired: bool = setting(
        FLAG, False, "delete a segment only when it is archived; needs system.backup.archiver"
    )
    cache_indexes: str = setting(
        choice("all", "open_segment", "none", "true", "false"),
        "open_segment",
        "which indexes stay in memory; true is all, false is none",
    )


class DeduplicationSection(Section):
    enabled: bool = setting(FLAG, False, "drop messages whose id was seen before")
    max_entries: int = setting(count(0, 2**63), 10_000, "ids remembered; 0 is all")
    expiry: int = setting(DURATION, "1 m", "how long; 0 for ever")


class RecoverySection(Section):
    recreate_missing_state: bool = setting(
        FLAG, False, "if the metadata log is missing, name streams and topics after their folders"
    )


class MemoryPoolSection(Section):
    enabled: bool = setting(FLAG, True, "reuse buffers")
    size: int = setting(BYTES, "4 GiB", "how much the pool may lend")
    bucket_capacity: int = setting(count(128, 2**31), 8192, "free buffers kept per size")


class ShardingSection(Section):
    cpu_allocation: str = setting(
        CPU_ALLOCATION,
        "auto",
        "shards, each a process that has its own partitions, and where they run",
    )


class SystemSection(Section):
    path: str = setting(PATH, "local_data", "the data directory")
    backup: BackupSection = section(BackupSection)
    state: StateSection = section(StateSection)
    runtime: RuntimeSection = section(RuntimeSection)
    logging: LoggingSection = section(LoggingSection)
    encryption: EncryptionSection = section(EncryptionSection)
    compression: CompressionSection = section(CompressionSection)
    stream: StreamSection = section(StreamSection)
    topic: TopicSection = section(TopicSection)
    partition: PartitionSection = section(PartitionSection)
    segment: SegmentSection = section(SegmentSection)
    message_deduplication: DeduplicationSection = section(DeduplicationSection)
    recovery: RecoverySection = section(RecoverySection)
    memory_pool: MemoryPoolSection = section(MemoryPoolSection)
    sharding: ShardingSection = section(ShardingSection)


class NodePortsSection(Section):
    tcp: int = setting(count(0, 65535), 0, "its TCP port; 0 for this node's")
    quic: int = setting(count(0, 65535), 0, "its QUIC port; 0 for this node's")
    http: int = setting(count(0, 65535), 0, "its HTTP port; 0 for this node's")
    websocket: int = setting(count(0, 65535), 0, "its WebSocket port; 0 for this node's")


class CurrentNodeSection(Section):
    name: str = setting(TEXT, "iggy-node-1", "the name of this node")
    ip: str = setting(TEXT, "127.0.0.1", "where others reach it")


class OtherNodeSection(Section):
    name: str = setting(
        TEXT, "", "its name; without other nodes, the default of 0.8 is iggy-node-2"
    )
    ip: str = setting(TEXT, "", "where it is reached")
    ports: NodePortsSection = section(NodePortsSection)


#: The default of 0.8.0: enabling only the cluster shows a second node.
SAMPLE_NODE = {
    "name": "iggy-node-2",
    "ip": "127.0.0.1",
    "ports": {"tcp": 8091, "quic": 8081, "http": 3001, "websocket": 8093},
}


class NodeSection(Section):
    current: CurrentNodeSection = section(CurrentNodeSection)
    others: tuple[OtherNodeSection, ...] = tables(
        OtherNodeSection, "the other nodes", default=(SAMPLE_NODE,)
    )


class ClusterSection(Section):
    enabled: bool = setting(FLAG, False, "report the nodes below to clients, as 0.8 does")
    name: str = setting(TEXT, "iggy-cluster", "the name of the cluster")
    node: NodeSection = section(NodeSection)


class SupervisorSection(Section):
    restart: bool = setting(
        FLAG, True, "borzoi: restart a shard that died; otherwise the server stops"
    )


class Settings(Section):
    """The complete configuration of a server."""

    consumer_group: ConsumerGroupSection = section(ConsumerGroupSection)
    data_maintenance: DataMaintenanceSection = section(DataMaintenanceSection)
    http: HttpSection = section(HttpSection)
    tcp: TcpSection = section(TcpSection)
    quic: QuicSection = section(QuicSection)
    websocket: WebSocketSection = section(WebSocketSection)
    message_saver: MessageSaverSection = section(MessageSaverSection)
    personal_access_token: PersonalAccessTokenSection = section(PersonalAccessTokenSection)
    heartbeat: HeartbeatSection = section(HeartbeatSection)
    telemetry: TelemetrySection = section(TelemetrySection)
    system: SystemSection = section(SystemSection)
    cluster: ClusterSection = section(ClusterSection)
    supervisor: SupervisorSection = section(SupervisorSection)
