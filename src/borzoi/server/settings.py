"""Every key of the configuration, with its default and its meaning, section by section.

The names are those of 0.8; those that only borzoi has are marked in their meaning. Each part gets
only its own section, as a value.
"""

from borzoi.server.declaring import Section, section, setting, tables
from borzoi.server.kinds import (
    ADDRESS,
    BYTES,
    BYTES_OR_UNSET,
    CPU_ALLOCATION,
    DURATION,
    EXPIRY,
    FLAG,
    MAX_SIZE,
    PATH,
    TEXT,
    TEXTS,
    choice,
    count,
)

U32 = 2**32 - 1
CONSOLE = "the console"
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


class CorsSection(Section):
    enabled: bool = setting(FLAG, True, "answer cross-origin requests")
    allowed_methods: tuple[str, ...] = setting(
        TEXTS, ["GET", "POST", "PUT", "DELETE"], "methods other origins may use"
    )
    allowed_origins: tuple[str, ...] = setting(TEXTS, ["*"], "allowed origins; * for any")
    allowed_headers: tuple[str, ...] = setting(
        TEXTS, ["content-type", "authorization"], "headers other origins may send"
    )
    exposed_headers: tuple[str, ...] = setting(TEXTS, [""], "headers other origins may read")
    allow_credentials: bool = setting(FLAG, False, "let other origins send cookies")
    allow_private_network: bool = setting(FLAG, False, "answer private-network preflights")


class TrustedIssuerSection(Section):
    issuer: str = setting(TEXT, "", "the iss claim of its tokens")
    audience: str = setting(TEXT, "", "the aud claim of its tokens")
    jwks_url: str = setting(TEXT, "", "where its keys are published")
    user_id: int = setting(count(0, U32), 0, "the user its tokens act as; never root")


class JwtSection(Section):
    algorithm: str = setting(
        choice("HS256", "HS384", "HS512", "RS256", "RS384", "RS512"),
        "HS256",
        "how access tokens are signed",
    )
    issuer: str = setting(TEXT, "iggy.apache.org", "the iss claim of issued tokens")
    audience: str = setting(TEXT, "iggy.apache.org", "the aud claim of issued tokens")
    valid_issuers: tuple[str, ...] = setting(TEXTS, ["iggy.apache.org"], "trusted issuers")
    valid_audiences: tuple[str, ...] = setting(TEXTS, ["iggy.apache.org"], "accepted audiences")
    access_token_expiry: int = setting(EXPIRY, "1 h", "lifetime of a token")
    clock_skew: int = setting(DURATION, "5 s", "allowed clock skew")
    not_before: int = setting(DURATION, "0 s", "when a token becomes valid")
    encoding_secret: str = setting(
        TEXT, "", "the key tokens are signed with; empty: random", secret=True
    )
    decoding_secret: str = setting(
        TEXT, "", "the key tokens are verified with; empty: the other", secret=True
    )
    use_base64_secret: bool = setting(FLAG, False, "the secrets are Base64")
    trusted_issuers: tuple[TrustedIssuerSection, ...] = tables(
        TrustedIssuerSection, "issuers whose tokens act as one of our users"
    )


class MetricsSection(Section):
    enabled: bool = setting(FLAG, True, "publish metrics")
    endpoint: str = setting(TEXT, "/metrics", "under this path")
    max_partitions: int = setting(
        count(0, 1_000_000), 1000, "borzoi: the number of partitions with their own series"
    )
    max_group_lags: int = setting(
        count(0, 1_000_000), 10_000, "borzoi: the pairs of group and partition that have a lag"
    )


class HttpTlsSection(Section):
    enabled: bool = setting(FLAG, False, "speak HTTPS")
    cert_file: str = setting(PATH, "core/certs/iggy_cert.pem", "the certificate")
    key_file: str = setting(PATH, "core/certs/iggy_key.pem", "its key")


class HttpSection(Section):
    enabled: bool = setting(FLAG, True, "accept HTTP clients")
    address: tuple[str, int] = setting(ADDRESS, "127.0.0.1:3000", "where")
    max_request_size: int = setting(BYTES, "2 MB", "largest body of a request")
    web_ui: bool = setting(FLAG, False, "serve the console", later=CONSOLE)
    cors: CorsSection = section(CorsSection)
    jwt: JwtSection = section(JwtSection)
    metrics: MetricsSection = section(MetricsSection)
    tls: HttpTlsSection = section(HttpTlsSection)


class TlsSection(Section):
    enabled: bool = setting(FLAG, False, "speak TLS on this listener")
    self_signed: bool = setting(
        FLAG, True, "generate a certificate for localhost if the files are missing"
    )
    cert_file: str = setting(PATH, "core/certs/iggy_cert.pem", "the certificate, PEM")
    key_file: str = setting(PATH, "core/certs/iggy_key.pem", "its key, PEM")


class TcpSocketSection(Section):
    override_defaults: bool = setting(FLAG, False, "apply the keys below to every connection")
    recv_buffer_size: int = setting(BYTES, "100 KB", "the kernel's receive buffer")
    send_buffer_size: int = setting(BYTES, "100 KB", "the kernel's send buffer")
    keepalive: bool = setting(
        FLAG, False, "let the kernel probe silent peers; without override_defaults it does"
    )
    nodelay: bool = setting(FLAG, False, "send small answers at once")
    linger: int = setting(DURATION, "0 s", "how long closing waits for unsent bytes")


class TcpSection(Section):
    enabled: bool = setting(FLAG, True, "accept TCP clients")
    address: tuple[str, int] = setting(
        ADDRESS, "127.0.0.1:8090", "where; port 0 lets the system choose"
    )
    socket_migration: bool = setting(
        FLAG, True, "move a connection to the shard that owns its partition", later=None
    )
    ipv6: bool = setting(FLAG, False, "an IPv6 wildcard address also takes IPv4 clients")
    max_connections: int = setting(
        count(1, 1_000_000), 10_000, "borzoi: more connections than this are closed at once"
    )
    max_connections_per_address: int = setting(
        count(0, 1_000_000),
        0,
        "borzoi: the same, per peer address; 0 means half of them, and all of them over loopback",
    )
    max_unfinished_size: int = setting(
        BYTES,
        "1 GiB",
        "borzoi: memory of large requests in flight, over all transports; further ones wait",
    )
    login_timeout: int = setting(
        DURATION,
        "1 m",
        "borzoi: disconnect clients that have not logged in by then; 0 disables the limit",
    )
    tls: TlsSection = section(TlsSection)
    socket: TcpSocketSection = section(TcpSocketSection)


class QuicSocketSection(Section):
    override_defaults: bool = setting(FLAG, False, "apply the keys below")
    recv_buffer_size: int = setting(BYTES, "64 KB", "the kernel's receive buffer")
    send_buffer_size: int = setting(BYTES, "64 KB", "the kernel's send buffer")
    keepalive: bool = setting(FLAG, False, "let the kernel probe silent peers")


class QuicCertificateSection(Section):
    self_signed: bool = setting(FLAG, True, "generate a certificate for localhost")
    cert_file: str = setting(PATH, "core/certs/iggy_cert.pem", "the certificate")
    key_file: str = setting(PATH, "core/certs/iggy_key.pem", "its key")


class QuicSection(Section):
    enabled: bool = setting(FLAG, True, "accept QUIC clients")
    address: tuple[str, int] = setting(ADDRESS, "127.0.0.1:8080", "where (UDP)")
    max_concurrent_bidi_streams: int = setting(
        count(1, U32),
        10_000,
        "kept for 0.8 files; 100 requests of a connection run at a time",
    )
    datagram_send_buffer_size: int = setting(
        BYTES, "100 KB", "kept for 0.8 files; everything is sent in streams"
    )
    initial_mtu: int = setting(BYTES, "8 KB", "largest datagram; path MTU discovery may lower it")
    send_window: int = setting(BYTES, "100 KB", "kept for 0.8 files; the client's window decides")
    receive_window: int = setting(BYTES, "100 KB", "receive window in bytes")
    keep_alive_interval: int = setting(DURATION, "5 s", "pings on a quiet connection")
    max_idle_timeout: int = setting(DURATION, "10 s", "idle timeout")
    certificate: QuicCertificateSection = section(QuicCertificateSection)
    socket: QuicSocketSection = section(QuicSocketSection)


class WebSocketSection(Section):
    enabled: bool = setting(FLAG, True, "accept WebSocket clients")
    address: tuple[str, int] = setting(ADDRESS, "127.0.0.1:8092", "where")
    read_buffer_size: int | None = setting(
        BYTES_OR_UNSET, "", "kept for 0.8 files; frames are received in place"
    )
    write_buffer_size: int | None = setting(
        BYTES_OR_UNSET, "", "kept for 0.8 files; answers are sent in place"
    )
    max_write_buffer_size: int | None = setting(
        BYTES_OR_UNSET, "", "kept for 0.8 files; reading pauses while an answer is unsent"
    )
    max_message_size: int | None = setting(
        BYTES_OR_UNSET, "", "largest message of a client; unset: 64 MiB"
    )
    max_frame_size: int | None = setting(
        BYTES_OR_UNSET, "", "largest frame of a client; unset: 16 MiB"
    )
    accept_unmasked_frames: bool = setting(FLAG, False, "accept unmasked frames of clients")
    tls: TlsSection = section(TlsSection)


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
        "1",
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
