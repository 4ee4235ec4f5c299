"""The configuration of the transports: TCP, QUIC, WebSocket and HTTP."""

from borzoi.server.declaring import Section, section, setting, tables
from borzoi.server.kinds import (
    ADDRESS,
    BYTES,
    BYTES_OR_UNSET,
    DURATION,
    EXPIRY,
    FLAG,
    PATH,
    TEXT,
    TEXTS,
    choice,
    count,
)

U32 = 2**32 - 1
CONSOLE = "the console"


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
